#include "common/cluster/role_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/cluster/address.h"
#include "common/cluster/json_text.h"
#include "common/cluster/tf_config.h"

namespace cohort {

namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kComputeThreadsMax = 1024;
constexpr int kDrainTimeoutMaxS = 24 * 3600;
constexpr int kBufferMaxMib = 1 << 24;
constexpr char kNoDirectory[] = "none";

// The values of the flags on the command line. The value of a flag that was not given is absent.
struct Flags {
  std::optional<std::string> cluster, bind_address, address_file, grant_file, orphan_timeout;
  std::optional<std::string> transport, log_level, flight_dir;
  std::optional<int> task_index, compute_threads, drain_timeout_s;
  std::optional<int> receive_buffer_mib, send_buffer_mib;
  std::string config_file;
  bool print_config = false, check_config = false, version = false;
};

void Declare(Role role, FlagParser& parser, Flags& flags) {
  parser.Add("cluster", flags.cluster,
             "Cluster as JSON, as in TF_CONFIG: {\"ps\": [\"host:port\"], ...}");
  parser.Add("task_index", flags.task_index,
             absl::StrCat("Which ", RoleName(role),
                          " of the cluster this is; needed only if there are several"));
  parser.Add("bind_address", flags.bind_address,
             "HOST:PORT to listen on; default: the own address in the cluster where that is "
             "loopback (127.x, ::1, localhost), else all interfaces with its port (0: any free "
             "port)");
  parser.Add("address_file", flags.address_file,
             "File to write the address to, as host:port, once it accepts calls");
  // Every ps holds variables. A worker holds variables only under some strategies, so the help text
  // of a worker says "where it has variables".
  const char* const holder = role == Role::kPs ? "this ps" : "this worker, where it has variables,";
  parser.Add("grant_file", flags.grant_file,
             absl::StrCat("File to keep the last epoch in that ", holder,
                          " granted, and to whom, so that it knows after a restart; default: "
                          "none"));
  parser.Add("receive_buffer_mib", flags.receive_buffer_mib,
             absl::StrCat("MiB of requests that ", holder,
                          " receives or works on at a time; further ones wait at their senders; "
                          "default 1024"));
  parser.Add("send_buffer_mib", flags.send_buffer_mib,
             absl::StrCat("MiB of answers to pulls that ", holder,
                          " has on their way at a time; further pulls wait; default 1024"));
  parser.Add("compute_threads", flags.compute_threads,
             "Threads that compute; default 0: one per processor");
  parser.Add("drain_timeout_s", flags.drain_timeout_s,
             "Seconds that open calls may take after SIGTERM; default 10");
  parser.Add("orphan_timeout", flags.orphan_timeout,
             "End when no coordinator came for so long, such as 30s; default 0: never");
  parser.Add("transport", flags.transport, kTransportHelp);
  if (role == Role::kWorker) {
    parser.Add(
        "flight_dir", flags.flight_dir,
        "Directory for a file with what the collective calls of a group did that has failed, "
        "the newest four of this worker; none: no files; default TMPDIR, else /tmp");
  }
  parser.Add("log_level", flags.log_level, "debug, info, warning or error; default info");
  parser.Add("config", flags.config_file,
             "JSON file with values for what flags and TF_CONFIG leave open (keys as in "
             "--print_config)");
  parser.Add("print_config", flags.print_config, "Print the resolved options and exit");
  parser.Add("check_config", flags.check_config, "Check the options and exit");
  parser.Add("version", flags.version, "Print the version and exit");
  parser.AddFooter(
      "Flags win over TF_CONFIG, TF_CONFIG over --config, --config over defaults.\n"
      "Exit codes: 0 stopped when asked, 2 bad options, 3 cannot listen or too few files may be "
      "open, 5 drain timeout, 6 no coordinator came, 70 a defect of this program.");
}

// The resolver takes the value of each option from the first source that has a value for it: flags,
// TF_CONFIG, the --config file, defaults. The resolver collects all problems. Thread-compatible.
class Resolver {
 public:
  Resolver(Role role, const Flags& flags, const Environment& environment)
      : role_(role), flags_(flags), environment_(environment) {}

  void ReadFile(FileSystem& files);
  void ReadTfConfigVariable();
  absl::StatusOr<RoleOptions> Resolve();

 private:
  // The value of an option, and the name of the source that gave the value, for error messages.
  struct Sourced {
    Json value;
    std::string source;
  };

  void Problem(absl::string_view source, absl::string_view text) {
    problems_.push_back(absl::StrCat(source, ": ", text));
  }
  std::optional<Json> ParseObject(absl::string_view text, const std::string& source);
  // Returns the value of `key` in TF_CONFIG, or else in the --config file, together with the name
  // of the source. Returns nothing if neither source has a value.
  std::optional<Sourced> ClusterValue(const char* key) const;
  // Checks the paths that this task writes to. No path may begin with "~". The address file and the
  // grant file must be regular files or not exist yet, and must be neither each other nor the
  // --config file.
  void CheckPaths();
  void ResolveCluster();
  Json ResolveTask(const Json& cluster, std::vector<std::string>& sources);
  void ResolveListenAddress();
  void ResolveRest();
  std::string Text(const std::optional<std::string>& flag, const char* key, std::string fallback);
  int Number(const std::optional<int>& flag, const char* key, int fallback, int max);
  // Returns the name of an option's source for error messages: the flag, or the --config file with
  // the option's key.
  std::string SourceOf(bool has_flag, const char* key) const {
    return has_flag ? absl::StrCat("--", key) : absl::StrCat(flags_.config_file, ": ", key);
  }

  const Role role_;
  const Flags& flags_;
  const Environment& environment_;
  Json file_ = Json::object();
  Json tf_config_ = Json::object();
  RoleOptions options_;
  std::vector<std::string> problems_;
};

std::optional<Json> Resolver::ParseObject(absl::string_view text, const std::string& source) {
  absl::StatusOr<Json> parsed = ParseJsonText(text);
  if (!parsed.ok()) {
    Problem(source, parsed.status().message());
    return std::nullopt;
  }
  if (!parsed->is_object()) {
    Problem(source, "must be a JSON object");
    return std::nullopt;
  }
  return *std::move(parsed);
}

void Resolver::ReadFile(FileSystem& files) {
  if (flags_.config_file.empty()) return;
  const auto text = cohort::ReadFile(files, flags_.config_file);
  if (!text.ok()) return Problem("--config", text.status().message());
  std::optional<Json> parsed = ParseObject(*text, flags_.config_file);
  if (!parsed) return;
  std::vector<std::string> known = {"task",
                                    "cluster",
                                    "rpc_layer",
                                    "bind_address",
                                    "address_file",
                                    "grant_file",
                                    "receive_buffer_mib",
                                    "send_buffer_mib",
                                    "compute_threads",
                                    "drain_timeout_s",
                                    "orphan_timeout",
                                    "transport",
                                    "log_level"};
  if (role_ == Role::kWorker) known.push_back("flight_dir");
  // An unknown key of the --config file is probably misspelt, so the key is refused, and the
  // nearest known key is suggested.
  for (const auto& [key, value] : parsed->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Problem(flags_.config_file, absl::StrCat("key ", UnknownName(key, known)));
    }
  }
  file_ = *std::move(parsed);
}

void Resolver::ReadTfConfigVariable() {
  const std::string text = environment_("TF_CONFIG").value_or("");
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return;
  if (auto parsed = ParseObject(text, "TF_CONFIG")) tf_config_ = *std::move(parsed);
}

std::optional<Resolver::Sourced> Resolver::ClusterValue(const char* key) const {
  // TF_CONFIG is searched before the --config file. A JSON null counts as absent.
  for (const auto& [json, name] : {std::pair<const Json&, std::string>(tf_config_, "TF_CONFIG"),
                                   {file_, flags_.config_file}}) {
    const auto found = json.find(key);
    if (found != json.end() && !found->is_null()) return Sourced{*found, name};
  }
  return std::nullopt;
}

// Returns the type and index of this task as JSON. The whole task may be omitted if the cluster has
// only one task of this role, as for TensorFlow's Server. A task that gives its type must give its
// index too, as the coordinator wants it of the same TF_CONFIG.
Json Resolver::ResolveTask(const Json& cluster, std::vector<std::string>& sources) {
  Json task = {{"type", RoleName(role_)}};
  std::optional<Sourced> given = ClusterValue("task");
  // ParseTfConfig reports a task that is not an object
  if (given && !given->value.is_object()) return given->value;
  if (given && given->value.contains("type")) {
    const Json& type = given->value["type"];
    // A ps that was started with a worker's TF_CONFIG must run neither as a ps nor as a worker.
    if (type != task["type"]) {
      Problem(given->source, absl::StrCat("task.type: is ", JsonLine(type),
                                          ", but this program is a ", RoleName(role_)));
    }
  }
  if (flags_.task_index) {
    task["index"] = *flags_.task_index;
    sources.push_back("task.index of --task_index");
  } else if (given && given->value.contains("index")) {
    task["index"] = given->value["index"];
    sources.push_back(absl::StrCat("task of ", given->source));
  } else if (given && given->value.contains("type")) {
    Problem(given->source, "task.index: is missing beside task.type; set it, or give --task_index");
    return Json();
  } else if (const auto job = cluster.find(RoleName(role_));
             job != cluster.end() && job->is_structured() && job->size() == 1) {
    int index = 0;
    // In a sparse job, an object from index to address, the only key is the task's index.
    // ParseTfConfig reports a key that is not a number.
    if (job->is_object() && !absl::SimpleAtoi(job->begin().key(), &index)) index = 0;
    task["index"] = index;
  } else {
    Problem("task.index", "is missing; give --task_index or set it in TF_CONFIG");
    return Json();
  }
  return task;
}

void Resolver::ResolveCluster() {
  std::vector<std::string> sources;
  Json merged = Json::object();
  if (flags_.cluster) {
    if (auto parsed = ParseObject(*flags_.cluster, "--cluster")) merged["cluster"] = *parsed;
    sources.push_back("cluster of --cluster");
  } else if (auto cluster = ClusterValue("cluster")) {
    merged["cluster"] = cluster->value;
    sources.push_back(absl::StrCat("cluster of ", cluster->source));
  }
  if (!merged.contains("cluster") || merged["cluster"].empty()) {
    return Problem("cluster", absl::StrCat("is missing; set TF_CONFIG or give --cluster '{\"",
                                           RoleName(role_), "\": [\"host:port\"]}'"));
  }
  merged["task"] = ResolveTask(merged["cluster"], sources);
  if (auto rpc_layer = ClusterValue("rpc_layer")) merged["rpc_layer"] = rpc_layer->value;
  // The cluster and the task, whatever their sources, are parsed as one TF_CONFIG, so that the
  // rules for TF_CONFIG apply to all sources. Its message has a line for each problem.
  auto config = ParseTfConfig(JsonLine(merged));
  if (!config.ok()) {
    for (absl::string_view problem : absl::StrSplit(config.status().message(), '\n')) {
      Problem(absl::StrJoin(sources, ", "), problem);
    }
    return;
  }
  if (!config->rpc_layer.empty() && config->rpc_layer != "grpc") {
    Problem("rpc_layer", absl::StrCat("'", config->rpc_layer, "' is not supported; use grpc"));
  }
  if (!config->task) return;
  // A ps or worker listens on its own address, so the cluster must give an address for this task.
  const absl::StatusOr<std::string> own = config->cluster.Address(*config->task);
  if (!own.ok()) {
    return Problem(absl::StrJoin(sources, ", "),
                   absl::StrCat(own.status().message(), "; add its address to cluster.",
                                RoleName(config->task->role)));
  }
  options_.task = *config->task;
  options_.cluster = config->cluster;
  options_.own_address = *own;
}

std::string Resolver::Text(const std::optional<std::string>& flag, const char* key,
                           std::string fallback) {
  if (flag) return *flag;
  const auto found = file_.find(key);
  if (found == file_.end()) return fallback;
  if (found->is_string()) return found->get<std::string>();
  Problem(SourceOf(false, key), "must be a string");
  return fallback;
}

int Resolver::Number(const std::optional<int>& flag, const char* key, int fallback, int max) {
  int64_t value = fallback;
  if (flag) {
    value = *flag;
  } else if (const auto found = file_.find(key); found != file_.end()) {
    // A JSON number above INT32_MAX is refused, because a conversion to a signed number could wrap
    // around.
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() || found->get<uint64_t>() <= INT32_MAX);
    value = fits ? found->get<int64_t>() : -1;
  }
  // A value that is not an integer was replaced by -1, which is out of range for every option.
  if (value >= 0 && value <= max) return static_cast<int>(value);
  Problem(SourceOf(flag.has_value(), key), absl::StrCat("must be an integer from 0 to ", max));
  return fallback;
}

void Resolver::ResolveListenAddress() {
  const std::string given = Text(flags_.bind_address, "bind_address", "");
  if (!given.empty()) {
    const auto address = ParseAddress(given);
    if (!address.ok()) {
      return Problem(SourceOf(flags_.bind_address.has_value(), "bind_address"),
                     address.status().message());
    }
    options_.listen_address = given;
    return;
  }
  const auto own = ParseAddress(options_.own_address);
  if (!own.ok()) return;  // ResolveCluster reports a bad address of this task
  options_.listen_address = FormatAddress(ListenAddressOf(*own));
}

void Resolver::ResolveRest() {
  options_.address_file = Text(flags_.address_file, "address_file", "");
  options_.grant_file = Text(flags_.grant_file, "grant_file", "");
  options_.receive_buffer_mib = Number(flags_.receive_buffer_mib, "receive_buffer_mib",
                                       options_.receive_buffer_mib, kBufferMaxMib);
  options_.send_buffer_mib =
      Number(flags_.send_buffer_mib, "send_buffer_mib", options_.send_buffer_mib, kBufferMaxMib);
  options_.compute_threads =
      Number(flags_.compute_threads, "compute_threads", 0, kComputeThreadsMax);
  options_.drain_timeout =
      absl::Seconds(Number(flags_.drain_timeout_s, "drain_timeout_s", 10, kDrainTimeoutMaxS));
  const auto orphan = TimeoutFromText(Text(flags_.orphan_timeout, "orphan_timeout", "0"));
  if (orphan.ok()) {
    options_.orphan_timeout = *orphan;
  } else {
    Problem(SourceOf(flags_.orphan_timeout.has_value(), "orphan_timeout"),
            orphan.status().message());
  }
  const auto transport = TransportKindFromName(Text(flags_.transport, "transport", "auto"));
  if (transport.ok()) {
    options_.transport = *transport;
  } else {
    Problem(SourceOf(flags_.transport.has_value(), "transport"), transport.status().message());
  }
  if (role_ == Role::kWorker) {
    // The default directory for the worker's flight files is TMPDIR if the environment variable is
    // set, and /tmp otherwise.
    const std::string temporary = environment_("TMPDIR").value_or("");
    options_.flight_directory =
        Text(flags_.flight_dir, "flight_dir", temporary.empty() ? "/tmp" : temporary);
    if (options_.flight_directory == kNoDirectory) options_.flight_directory.clear();
  }
  const auto level = LogLevelFromName(Text(flags_.log_level, "log_level", "info"));
  if (level.ok()) {
    options_.log_level = *level;
  } else {
    Problem(SourceOf(flags_.log_level.has_value(), "log_level"), level.status().message());
  }
}

void Resolver::CheckPaths() {
  const std::string address = SourceOf(flags_.address_file.has_value(), "address_file");
  const std::string grant = SourceOf(flags_.grant_file.has_value(), "grant_file");
  const bool is_given = flags_.flight_dir.has_value() || file_.contains("flight_dir");
  const std::pair<std::string, std::string> paths[] = {
      {"--config", flags_.config_file},
      {address, options_.address_file},
      {grant, options_.grant_file},
      {is_given ? SourceOf(flags_.flight_dir.has_value(), "flight_dir") : "TMPDIR",
       options_.flight_directory}};
  for (const auto& [name, path] : paths) {
    if (const absl::Status good = CheckLocalPath(path); !good.ok()) Problem(name, good.message());
  }
  for (const auto& [name, path] : {paths[1], paths[2]}) {
    if (path.empty()) continue;
    const absl::Status good = CheckFilePath(path);
    if (!good.ok()) Problem(name, absl::StrCat(good.message(), "; name a file"));
    for (const auto& [other, other_path] : {paths[0], paths[1]}) {
      if (other == name || other_path.empty()) continue;
      if (!FilePlace(path).IsSame(FilePlace(other_path))) continue;
      Problem(name, absl::StrCat("'", path, "' is the file '", other_path, "' of ", other,
                                 "; name a file of its own"));
    }
  }
}

absl::StatusOr<RoleOptions> Resolver::Resolve() {
  ResolveCluster();
  ResolveListenAddress();
  ResolveRest();
  CheckPaths();
  if (problems_.empty()) return options_;
  return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
}

}  // namespace

absl::StatusOr<RoleCommand> ParseRoleCommandLine(Role role,
                                                 const std::vector<std::string>& arguments,
                                                 const Environment& environment,
                                                 FileSystem& files) {
  FlagParser parser(RoleName(role), absl::StrCat("Cohort's ", RoleName(role), " daemon"));
  Flags flags;
  Declare(role, parser, flags);
  ASSIGN_OR_RETURN(const std::optional<PrintAndExit> help, parser.Parse(arguments));
  // --help and --version are answered before the configuration is read, so that they work with a
  // wrong configuration.
  if (help) return *help;
  if (flags.version) return PrintAndExit{VersionText(RoleName(role))};
  Resolver resolver(role, flags, environment);
  resolver.ReadFile(files);
  resolver.ReadTfConfigVariable();
  // --print_config and --check_config are answered after Resolve(), because both need valid
  // options.
  ASSIGN_OR_RETURN(RoleOptions options, resolver.Resolve());
  if (flags.print_config) return PrintAndExit{RoleOptionsToJson(options)};
  if (flags.check_config) return PrintAndExit{"the configuration is good\n"};
  return options;
}

std::string RoleOptionsToJson(const RoleOptions& options) {
  OrderedJson cluster = OrderedJson::object();
  for (const auto& [task, address] : options.cluster.tasks()) {
    // Each role's tasks are written as an object from index to address, which can express indices
    // with holes.
    cluster[RoleName(task.role)][absl::StrCat(task.index)] = address;
  }
  OrderedJson json = {
      {"task", {{"type", RoleName(options.task.role)}, {"index", options.task.index}}},
      {"cluster", cluster},
      {"bind_address", options.listen_address},
      {"address_file", options.address_file},
      {"grant_file", options.grant_file},
      {"receive_buffer_mib", options.receive_buffer_mib},
      {"send_buffer_mib", options.send_buffer_mib},
      {"compute_threads", options.compute_threads},
      {"drain_timeout_s", absl::ToInt64Seconds(options.drain_timeout)},
      {"orphan_timeout", absl::FormatDuration(options.orphan_timeout)},
      {"transport", TransportKindName(options.transport)},
      {"log_level", LogLevelName(options.log_level)}};
  if (options.task.role == Role::kWorker) {
    json["flight_dir"] = options.flight_directory.empty() ? kNoDirectory : options.flight_directory;
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string ReachableAddress(const RoleOptions& options, absl::string_view bound) {
  auto own = ParseAddress(options.own_address);
  const auto listening = ParseAddress(bound);
  if (!own.ok() || !listening.ok() || !own->unix_path.empty()) return std::string(bound);
  // The host in `bound` may be 0.0.0.0, to which no other task can connect, so only the port in
  // `bound` is used.
  own->port = listening->port;
  return FormatAddress(*own);
}

absl::Status AnnounceAddress(FileSystem& files, const RoleOptions& options,
                             absl::string_view bound) {
  if (options.address_file.empty()) return absl::OkStatus();
  // A daemon that was killed while it wrote the address file has left a temporary file, which is
  // removed here.
  RemoveTemporaries(files, options.address_file);
  return WriteFileAtomically(files, options.address_file,
                             absl::StrCat(ReachableAddress(options, bound), "\n"));
}

}  // namespace cohort
