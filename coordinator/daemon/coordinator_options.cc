#include "coordinator/daemon/coordinator_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/errno_text.h"
#include "common/base/machine.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/tf_config.h"
#include "coordinator/api/load_record.h"
#include "coordinator/job/keras_file.h"
#include "coordinator/members/ctl_command.h"
#include "coordinator/members/membership_source.h"
#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/plan_text.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/train/data_sources.h"
#include "coordinator/train/offline_plan.h"

namespace cohort {

namespace {

// Binds a socket to a free loopback port. Returns the port or, if that fails, the negated errno.
int BindFreePort(int socket_fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(socket_fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return -errno;
  }
  return ntohs(address.sin_port);
}

// Returns `count` different loopback ports that were free a moment ago, one per line, for scripts
// that write a TF_CONFIG.
absl::StatusOr<std::string> FreePortsText(int count) {
  // All sockets stay open until the last port is found. So all ports are different.
  std::vector<int> sockets;
  std::string text;
  absl::Status error;
  for (int i = 0; i < count && error.ok(); ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int port = fd < 0 ? -errno : BindFreePort(fd);
    if (fd >= 0) sockets.push_back(fd);
    if (port < 0) error = ErrnoStatus(-port, "cannot find a free port");
    absl::StrAppend(&text, port, "\n");
  }
  for (const int fd : sockets) close(fd);
  if (!error.ok()) return error;
  return text;
}

constexpr int kLocalTasksMax = 256;
constexpr int kDrainTimeoutMaxS = 24 * 3600;

// The values of the command-line flags, not yet parsed or checked.
struct Flags {
  std::string job_file, local, state_directory, membership, ctl_address;
  std::string orphan_timeout = "30s", transport = "auto", log_level = "info";
  std::vector<std::string> overrides;
  int free_ports = 0;
  int drain_timeout_s = 10;
  bool keep_tasks = false, take_over = false;
  bool print_config = false, check_config = false, version = false;
  bool print_plan = false, json = false;
};

// Declares all command-line flags, with their help texts.
void Declare(FlagParser& parser, Flags& flags) {
  parser.Add("job", flags.job_file, "Job file (JSON): model, data, optimizer, strategy");
  parser.Add("set", flags.overrides,
             "Override a field of the job: --set fit.epochs=1; may be given again");
  parser.Add("local", flags.local,
             "Start and supervise the other tasks on this machine: ps=2,worker=3, or worker=1 for "
             "a strategy without ps. Without it and without TF_CONFIG: one of each that is needed");
  parser.Add("state_dir", flags.state_directory,
             "Where local tasks put addresses, process ids and logs; a coordinator that is started "
             "again with the same one adopts its tasks; default: a new directory under TMPDIR");
  parser.Add("orphan_timeout", flags.orphan_timeout,
             "When local tasks end by themselves because no coordinator came; 0: never; default "
             "30s");
  parser.Add("membership", flags.membership,
             "Keep the workers the same as a list while the job runs: a FILE with one HOST:PORT a "
             "line, or dns:NAME:PORT");
  parser.Add("ctl_address", flags.ctl_address,
             "HOST:PORT where 'coordinator ctl' is served; default: the chief's address in "
             "TF_CONFIG where that is loopback, else its port on all interfaces; with local tasks "
             "a free loopback port; none: nowhere");
  parser.Add("keep_tasks", flags.keep_tasks,
             "Leave the tasks of TF_CONFIG running when the job ends");
  parser.Add("take_over", flags.take_over,
             "Take the tasks of TF_CONFIG also from another job that runs on them; that one ends");
  parser.Add("drain_timeout_s", flags.drain_timeout_s,
             "After SIGTERM: seconds for the job and its local tasks to end; default 10");
  parser.Add("free_ports", flags.free_ports,
             "Print so many free loopback ports, one a line, and exit");
  parser.Add("transport", flags.transport, kTransportHelp);
  parser.Add("log_level", flags.log_level, "debug, info, warning or error; default info");
  parser.Add("print_config", flags.print_config, "Print the resolved job and exit");
  parser.Add("print_plan", flags.print_plan,
             "Print where variables go, bytes per ps and why, and exit; connects to nothing");
  parser.Add("json", flags.json, "With --print_plan: as JSON");
  parser.Add("check_config", flags.check_config, "Check flags, TF_CONFIG and job, and exit");
  parser.Add("version", flags.version, "Print the version and exit");
  parser.AddFooter(
      "'coordinator ctl --help' tells how to see a running job and to change its workers.\n"
      "Flags win over TF_CONFIG, TF_CONFIG over the job file, the job file over defaults.\n"
      "Exit codes: 0 done, 1 the job failed, 2 bad options, 3 cannot listen or too few files may "
      "be "
      "open, 4 the cluster could not be reached or was lost, 5 asked to stop and not done in time, "
      "7 asked to stop, and the same command goes on, 70 a defect of this program.");
}

// Returns the directory in which a new state directory is made.
std::string TemporaryDirectory(const Environment& environment) {
  const std::string base = environment("TMPDIR").value_or("");
  return base.empty() ? "/tmp" : base;
}

// Returns the error for a directory in which no state directory can be made.
absl::Status NoStateDirectory(absl::string_view base, absl::string_view cause) {
  return absl::FailedPreconditionError(absl::StrCat("no directory can be made in '", base, "' (",
                                                    cause, "): set TMPDIR, or give --state_dir"));
}

// Checks that a new state directory can be made, without making it. Errors: FAILED_PRECONDITION
// with advice to the user.
absl::Status CheckNewStateDirectory(const Environment& environment) {
  const std::string base = TemporaryDirectory(environment);
  // The state directory is made alone: directories above it that are not there stay missing.
  if (access(base.c_str(), F_OK) != 0) return NoStateDirectory(base, ErrnoText(errno));
  const absl::Status usable = CheckDirectoryPath(base);
  return usable.ok() ? usable : NoStateDirectory(base, usable.message());
}

// Makes a new state directory under TMPDIR. Errors: FAILED_PRECONDITION with advice to the user.
absl::StatusOr<std::string> NewStateDirectory(const Environment& environment) {
  const std::string base = TemporaryDirectory(environment);
  std::string path = JoinPath(base, "cohort-XXXXXX");
  // The name is made random (mkdtemp), because other users may write to the directory `base` and
  // must not be able to guess the name.
  if (mkdtemp(path.data()) != nullptr) return path;
  return NoStateDirectory(base, ErrnoText(errno));
}

// Stores `value` in `out`. If it is an error, adds the error's text to `problems` instead.
template <typename T>
void Take(absl::StatusOr<T> value, T& out, std::vector<std::string>& problems) {
  if (value.ok()) {
    out = *std::move(value);
  } else {
    problems.emplace_back(value.status().message());
  }
}

// Finds out which tasks the job runs on: those of --local, or those of TF_CONFIG. By default, one
// local task of each role that the job needs.
void ResolveCluster(const Flags& flags, const Environment& environment, CoordinatorOptions& options,
                    std::vector<std::string>& problems) {
  if (!flags.local.empty()) {
    LocalTasks tasks;
    Take(ParseLocalTasks(flags.local), tasks, problems);
    options.local = tasks;
    return;
  }
  const absl::StatusOr<TfConfig> config = ReadTfConfig(environment);
  if (!config.ok()) {
    problems.emplace_back(config.status().message());
    return;
  }
  if (const absl::Status local = CheckMeantLocal(*config); !local.ok()) {
    problems.push_back(absl::StrCat("TF_CONFIG: ", local.message()));
    return;
  }
  if (config->cluster.empty()) {
    // Neither --local nor TF_CONFIG names tasks, so one local task of each needed role is started.
    options.local = LocalTasks{HomesOf(options.job.strategy) == Role::kPs ? 1 : 0, 1};
    return;
  }
  if (config->task.has_value() && config->task->role != Role::kChief) {
    problems.push_back(absl::StrCat("TF_CONFIG: task.type is ", RoleName(config->task->role),
                                    ", but this program is the coordinator: use chief, or leave "
                                    "task out"));
  }
  if (const absl::Status dialable = CheckDialable(config->cluster, config->task); !dialable.ok()) {
    problems.push_back(absl::StrCat("TF_CONFIG: ", dialable.message()));
  }
  options.cluster = config->cluster;
}

// Returns the task indices of the cluster, for which a strategy makes its plan.
ClusterShape ShapeOf(const CoordinatorOptions& options) {
  ClusterShape cluster;
  if (options.local.has_value()) {
    for (int ps = 0; ps < options.local->ps; ++ps) cluster.ps.push_back(ps);
    for (int worker = 0; worker < options.local->workers; ++worker) {
      cluster.workers.push_back(worker);
    }
  } else {
    cluster.ps = options.cluster.Indices(Role::kPs);
    cluster.workers = options.cluster.Indices(Role::kWorker);
  }
  return cluster;
}

// Checks that the job's strategy is valid and that the cluster has the tasks that it needs.
void CheckStrategy(const CoordinatorOptions& options, std::vector<std::string>& problems) {
  const auto strategy = MakeStrategy(options.job.strategy);
  if (!strategy.ok()) {
    problems.push_back(absl::StrCat(options.job_file, ": ", strategy.status().message()));
    return;
  }
  const absl::Status fits = (*strategy)->CheckCluster(ShapeOf(options));
  const char* const source = options.local.has_value() ? "--local" : "TF_CONFIG";
  if (!fits.ok()) problems.push_back(absl::StrCat(source, ": ", fits.message()));
}

// Checks, without connecting, what the job would find out later from tasks and data. Called
// only if no other problem was found, because such a problem could make these checks misleading.
void CheckPlan(const CoordinatorOptions& options, std::vector<std::string>& problems) {
  const JobSpec& job = options.job;
  const ClusterShape cluster = ShapeOf(options);
  const auto workers = static_cast<int64_t>(cluster.workers.size());
  const char* const source = options.local.has_value() ? "--local" : "TF_CONFIG";
  const bool may_change = HomesOf(job.strategy) == Role::kPs;
  // If a single worker has all variables, the job's limits of the number of workers are not used.
  const bool counts = may_change || job.strategy.type == kMultiWorkerMirrored;
  if (counts && workers < job.cluster.min_workers) {
    problems.push_back(absl::StrCat(source, ": the cluster has ", workers,
                                    " worker(s), but cluster.min_workers is ",
                                    job.cluster.min_workers));
  }
  if (may_change && job.cluster.max_workers && workers > *job.cluster.max_workers) {
    problems.push_back(absl::StrCat(source, ": the cluster has ", workers,
                                    " worker(s), but cluster.max_workers is ",
                                    *job.cluster.max_workers));
  }
  std::optional<uint64_t> memory_bytes;
  if (options.local.has_value()) memory_bytes = PhysicalMemory();
  const absl::Status good = CheckJob(job, cluster, memory_bytes);
  if (!good.ok()) problems.push_back(absl::StrCat(options.job_file, ": ", good.message()));
}

// Resolves the flags --membership and --ctl_address. Must run after the cluster is known, because
// it has the default address.
void ResolveMembers(const Flags& flags, CoordinatorOptions& options,
                    std::vector<std::string>& problems) {
  options.membership = flags.membership;
  if (!flags.membership.empty()) {
    const absl::Status good = CheckMembership(flags.membership);
    if (!good.ok()) problems.push_back(absl::StrCat("--membership: ", good.message()));
    if (options.local.has_value()) {
      problems.emplace_back(
          "--membership: local tasks are this coordinator's own; name the "
          "cluster in TF_CONFIG, or leave it out");
    }
  }
  if (flags.ctl_address == "none") return;
  options.ctl_required = !flags.ctl_address.empty();
  const absl::StatusOr<std::string> chief = options.cluster.Address(TaskId{Role::kChief, 0});
  const std::string fallback = options.local.has_value() ? "127.0.0.1:0" : chief.value_or("");
  options.ctl_address = options.ctl_required ? flags.ctl_address : fallback;
  if (options.ctl_address.empty()) return;
  const absl::StatusOr<Address> address = ParseAddress(options.ctl_address);
  if (!address.ok()) {
    problems.push_back(absl::StrCat("--ctl_address: ", address.status().message()));
  } else if (!options.ctl_required) {
    // The default is not the chief's address itself, whose host name may belong to another machine,
    // but an address to listen on with the same port.
    options.ctl_address = FormatAddress(ListenAddressOf(*address));
  }
}

// Checks the paths in flags and job. If the job or its plan is only printed, it need not be able to
// run, so files are not looked at.
void CheckPaths(const Flags& flags, const Environment& environment, FileSystem& files,
                const CoordinatorOptions& options, std::vector<std::string>& problems) {
  const JobPlaces places = PlacesOf(options);
  for (auto& problem : UnusablePaths(places, environment)) problems.push_back(problem);
  if (!problems.empty() || flags.print_config || flags.print_plan) return;
  if (options.local.has_value() && options.state_directory.empty()) {
    const absl::Status temporary = CheckNewStateDirectory(environment);
    if (!temporary.ok()) problems.emplace_back(temporary.message());
  }
  for (auto& problem : OutputProblems(places, environment, files)) problems.push_back(problem);
  if (!problems.empty()) return;
  const absl::Status data = CheckDataSources(files, options.job.data, MnistSearchOf(environment));
  if (!data.ok()) problems.push_back(absl::StrCat(options.job_file, ": data: ", data.message()));
  std::vector<proto::VariableLayout> variables;
  if (!options.job.checkpoint.restore.empty() || !options.job.checkpoint.init_from.path.empty()) {
    // Where only the workers can tell the variables' shapes, a start compares them later.
    absl::StatusOr<Plan> plan = MakeOfflinePlan(options.job, ShapeOf(options));
    if (plan.ok()) variables = std::move(plan->variables);
  }
  absl::Status good = CheckBeginning(places, files, variables);
  // The checkpoint to restore may say how much each part of the variables was asked for.
  if (good.ok()) good = ReadJobLoads(files, options.job).status();
  if (!good.ok()) problems.push_back(absl::StrCat(options.job_file, ": ", good.message()));
}

// Reads the job file, and applies the flags --set to it.
void ResolveJob(const Flags& flags, FileSystem& files, CoordinatorOptions& options,
                std::vector<std::string>& problems) {
  if (flags.job_file.empty()) {
    problems.emplace_back("--job is missing: name a job file, such as deploy/jobs/mnist_mlp.json");
    return;
  }
  options.job_file = flags.job_file;
  const absl::StatusOr<std::string> text = ReadFile(files, flags.job_file);
  if (!text.ok()) {
    problems.push_back(absl::StrCat("--job: ", text.status().message()));
    return;
  }
  const auto read = [&files](const std::string& path) { return ReadKerasFile(files, path); };
  Take(ParseJob(*text, flags.job_file, flags.overrides, read), options.job, problems);
}

// Makes the job's plan without connecting to any task, and returns it as text or JSON.
absl::StatusOr<CoordinatorCommand> PrintPlan(const CoordinatorOptions& options, FileSystem& files,
                                             PlanFormat format) {
  ClusterShape cluster = ShapeOf(options);
  ASSIGN_OR_RETURN(cluster.loads, ReadJobLoads(files, options.job));
  ASSIGN_OR_RETURN(const Plan plan, MakeOfflinePlan(options.job, cluster));
  return PrintAndExit{PlanToText(plan, options.job.strategy, cluster, format)};
}

// Returns the GPUs that the strategy names.
std::set<std::string> GpusOf(const StrategySpec& strategy) {
  std::vector<std::string> named;
  if (strategy.type == "one_device") {
    named = {strategy.device};
  } else if (strategy.type == "central_storage") {
    named = strategy.compute_devices;
    named.push_back(strategy.parameter_device);
  } else if (strategy.type != kParameterServer) {
    named = strategy.devices;
  }
  std::set<std::string> gpus;
  for (const std::string& name : named) {
    const absl::StatusOr<std::string> device = CanonicalDevice(name);
    if (device.ok() && absl::StartsWith(*device, "gpu:")) gpus.insert(*device);
  }
  return gpus;
}

// Returns what --check_config prints of a job that it finds nothing wrong with. Only the workers
// know their devices.
std::string GoodConfig(const StrategySpec& strategy) {
  const std::set<std::string> gpus = GpusOf(strategy);
  if (gpus.empty()) return "the configuration is good\n";
  return absl::StrCat("the configuration is good; whether the workers have ",
                      absl::StrJoin(gpus, ", "), " they say when the job starts\n");
}

// Converts the flags to options. Collects all problems, so that the user sees them at once.
absl::StatusOr<CoordinatorCommand> Resolve(const Flags& flags, const Environment& environment,
                                           FileSystem& files) {
  CoordinatorOptions options;
  std::vector<std::string> problems;
  ResolveJob(flags, files, options, problems);
  ResolveCluster(flags, environment, options, problems);
  // A strategy and a plan can be checked only if the job and the cluster have no problems.
  if (problems.empty()) CheckStrategy(options, problems);
  // A job that is only printed need not be able to run.
  const bool is_printed = flags.print_config || flags.print_plan;
  if (problems.empty() && !is_printed) CheckPlan(options, problems);
  ResolveMembers(flags, options, problems);
  options.state_directory = flags.state_directory;
  CheckPaths(flags, environment, files, options, problems);
  Take(TransportKindFromName(flags.transport), options.transport, problems);
  Take(LogLevelFromName(flags.log_level), options.log_level, problems);
  const absl::StatusOr<absl::Duration> orphan_timeout = TimeoutFromText(flags.orphan_timeout);
  if (orphan_timeout.ok()) {
    options.orphan_timeout = *orphan_timeout;
  } else {
    problems.push_back(absl::StrCat("--orphan_timeout: ", orphan_timeout.status().message()));
  }
  if (flags.drain_timeout_s < 1 || flags.drain_timeout_s > kDrainTimeoutMaxS) {
    problems.push_back(absl::StrCat("--drain_timeout_s: ", flags.drain_timeout_s,
                                    " is not from 1 to ", kDrainTimeoutMaxS));
  }
  options.drain_timeout = absl::Seconds(flags.drain_timeout_s);
  options.keep_tasks = flags.keep_tasks;
  options.take_over = flags.take_over;
  if (flags.json && !flags.print_plan) problems.emplace_back("--json goes with --print_plan");
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  if (flags.print_config) return PrintAndExit{JobToJson(options.job)};
  if (flags.print_plan) {
    return PrintPlan(options, files, flags.json ? PlanFormat::kJson : PlanFormat::kText);
  }
  if (flags.check_config) return PrintAndExit{GoodConfig(options.job.strategy)};
  // The directory is created only now, because the commands above that print and exit do not need
  // it.
  if (options.local.has_value() && options.state_directory.empty()) {
    ASSIGN_OR_RETURN(options.state_directory, NewStateDirectory(environment));
    options.state_directory_is_new = true;
  }
  if (options.local.has_value() && !options.ctl_address.empty()) {
    options.ctl_address_file = JoinPath(options.state_directory, kCtlAddressFile);
  }
  return options;
}

}  // namespace

JobPlaces PlacesOf(const CoordinatorOptions& options) {
  return {options.job, options.job_file, options.membership, options.state_directory,
          options.local.has_value()};
}

absl::StatusOr<LocalTasks> ParseLocalTasks(absl::string_view text) {
  LocalTasks tasks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> pair = absl::StrSplit(part, '=');
    int count = 0;
    const bool known = pair[0] == "ps" || pair[0] == "worker";
    if (pair.size() != 2 || !known || !absl::SimpleAtoi(pair[1], &count) || count < 1 ||
        count > kLocalTasksMax) {
      return absl::InvalidArgumentError(absl::StrCat("--local: '", part, "' in '", text,
                                                     "' is not ps=N or worker=N with N from 1 to ",
                                                     kLocalTasksMax, "; write ps=2,worker=3"));
    }
    int& tasks_of_role = pair[0] == "ps" ? tasks.ps : tasks.workers;
    if (tasks_of_role != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--local: '", text, "' names ", pair[0], " twice; write ps=2,worker=3"));
    }
    tasks_of_role = count;
  }
  if (tasks.workers == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--local: '", text, "' has no worker: write ps=2,worker=3"));
  }
  return tasks;
}

absl::StatusOr<CoordinatorCommand> ParseCoordinatorCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment, FileSystem& files) {
  FlagParser parser("coordinator", "Cohort's coordinator");
  Flags flags;
  Declare(parser, flags);
  ASSIGN_OR_RETURN(std::optional<PrintAndExit> help, parser.Parse(arguments));
  if (help) return *std::move(help);
  if (flags.version) return PrintAndExit{VersionText("coordinator")};
  if (flags.free_ports > 0) {
    ASSIGN_OR_RETURN(std::string ports, FreePortsText(flags.free_ports));
    return PrintAndExit{std::move(ports)};
  }
  return Resolve(flags, environment, files);
}

}  // namespace cohort
