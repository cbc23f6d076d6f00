#include "common/cluster/tf_config.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/nearest_names.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/json_text.h"

namespace cohort {

namespace {

using Json = nlohmann::json;

// The reader of one TF_CONFIG, which collects all problems of that configuration.
// Thread-compatible.
class Reader {
 public:
  TfConfig Read(const Json& root);
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Problem(absl::string_view path, absl::string_view text) {
    problems_.push_back(absl::StrCat(path, ": ", text));
  }
  void ReadCluster(const Json& cluster);
  void ReadJob(Role role, const std::string& path, const Json& job);
  void ReadAddress(TaskId task, const std::string& path, const Json& address);
  void CheckAtMostOne(Role role);
  void ReadTask(const Json& task);
  std::optional<Role> ReadRole(const Json& task);
  std::optional<int> ReadIndex(const Json& task);
  void CheckTaskInCluster(TaskId task);
  std::optional<std::string> ReadText(const Json& root, const char* key);

  TfConfig config_;
  std::vector<std::string> problems_;
  // True if the cluster has problems. A task is not checked against a cluster that has problems.
  bool bad_cluster_ = false;
  // The JSON path at which each address was first used, by address.
  std::map<std::string, std::string> path_of_;
};

// Returns the value of `key`, or null if the key is absent. A JSON null counts as absent, like
// Python's None in TensorFlow.
const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Returns true for keys such as "Cluster", "cluster_spec", "sparseCluster" and "clutser", which are
// probably meant to be "cluster".
bool IsLikeCluster(const std::string& key) {
  const std::string lower = absl::AsciiStrToLower(key);
  return absl::StrContains(lower, "cluster") || EditDistance(lower, "cluster") <= 2;
}

// Returns true for keys such as "Task" and "tasks", which are probably meant to be "task".
bool IsLikeTask(const std::string& key) {
  return EditDistance(absl::AsciiStrToLower(key), "task") <= 1;
}

TfConfig Reader::Read(const Json& root) {
  if (!root.is_object()) {
    Problem("(root)", absl::StrCat("must be an object, not ", JsonExcerpt(root)));
    return config_;
  }
  if (const Json* cluster = Find(root, "cluster")) ReadCluster(*cluster);
  if (const Json* task = Find(root, "task")) ReadTask(*task);
  for (const auto& [key, value] : root.items()) {
    if (key != "cluster" && IsLikeCluster(key)) config_.cluster_lookalike = key;
    if (key != "task" && IsLikeTask(key)) Problem(key, "is not known; write `task`");
  }
  config_.rpc_layer = ReadText(root, "rpc_layer").value_or("");
  config_.session_master = ReadText(root, "session_master");
  return config_;
}

// Returns the string value of `key` in the root object, or nothing if the key is absent or its
// value is not a string.
std::optional<std::string> Reader::ReadText(const Json& root, const char* key) {
  const Json* value = Find(root, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Problem(key, absl::StrCat("must be a string, not ", JsonExcerpt(*value)));
    return std::nullopt;
  }
  return value->get<std::string>();
}

void Reader::ReadCluster(const Json& cluster) {
  // The cluster has problems if reading the cluster has added problems.
  const size_t before = problems_.size();
  if (!cluster.is_object()) {
    Problem("cluster",
            absl::StrCat("must be an object from job to addresses, not ", JsonExcerpt(cluster)));
  } else {
    for (const auto& [name, job] : cluster.items()) {
      const std::string path = absl::StrCat("cluster.", name);
      if (const auto role = RoleFromName(name); role.ok()) {
        ReadJob(*role, path, job);
      } else {
        Problem(path, role.status().message());
      }
    }
    CheckAtMostOne(Role::kChief);
    CheckAtMostOne(Role::kEvaluator);
  }
  bad_cluster_ = problems_.size() > before;
}

void Reader::ReadJob(Role role, const std::string& path, const Json& job) {
  if (job.is_array()) {
    int index = 0;
    for (const Json& address : job) {
      ReadAddress(TaskId{role, index}, absl::StrCat(path, "[", index, "]"), address);
      ++index;
    }
    return;
  }
  if (!job.is_object()) {
    Problem(path,
            absl::StrCat("must be a list of addresses or an object from index to address, not ",
                         JsonExcerpt(job)));
    return;
  }
  for (const auto& [key, address] : job.items()) {
    const std::string entry = absl::StrCat(path, "[\"", key, "\"]");
    int index = 0;
    if (!absl::SimpleAtoi(key, &index)) {
      Problem(entry, "the index is not an integer");
    } else if (index < 0) {
      Problem(entry, "the index is negative");
      // The keys "1" and "01" of a sparse job are different JSON keys for one index.
    } else if (config_.cluster.Address(TaskId{role, index}).ok()) {
      Problem(entry, absl::StrCat("index ", index, " is given twice"));
    } else {
      ReadAddress(TaskId{role, index}, entry, address);
    }
  }
}

void Reader::ReadAddress(TaskId task, const std::string& path, const Json& address) {
  if (!address.is_string()) {
    Problem(path, absl::StrCat("an address must be a string, not ", JsonExcerpt(address)));
    return;
  }
  const std::string text = address.get<std::string>();
  const auto parsed = ParseAddress(text);
  if (!parsed.ok()) {
    Problem(path, parsed.status().message());
    return;
  }
  config_.cluster.Add(task, text);
  // Port 0 may occur several times, since each task with port 0 gets a free port of its own.
  if (parsed->unix_path.empty() && parsed->port == 0) return;
  // An address belongs to one process, so two tasks at one address cannot both run.
  const auto [first, is_new] = path_of_.emplace(text, path);
  if (!is_new) {
    Problem(path, absl::StrCat("'", text, "' is already the address of ", first->second));
  }
}

void Reader::CheckAtMostOne(Role role) {
  const int count = config_.cluster.NumTasks(role);
  if (count > 1) {
    Problem(absl::StrCat("cluster.", RoleName(role)),
            absl::StrCat("has ", count, " tasks; at most one ", RoleName(role), " is allowed"));
  }
}

void Reader::ReadTask(const Json& task) {
  if (!task.is_object()) {
    Problem("task", absl::StrCat("must be an object with type and index, not ", JsonExcerpt(task)));
    return;
  }
  const bool has_type = Find(task, "type") != nullptr;
  const bool has_index = Find(task, "index") != nullptr;
  if (has_index && !has_type) Problem("task.type", "is missing beside task.index");
  if (has_type && !has_index) Problem("task.index", "is missing beside task.type");
  // Both the type and the index of the task are read before the function returns, so that all
  // problems are reported.
  const std::optional<Role> role = has_type ? ReadRole(task) : std::nullopt;
  const std::optional<int> index = has_index ? ReadIndex(task) : std::nullopt;
  if (!role || !index) return;
  config_.task = TaskId{*role, *index};
  if (!bad_cluster_ && !config_.cluster.empty()) CheckTaskInCluster(*config_.task);
}

std::optional<Role> Reader::ReadRole(const Json& task) {
  const Json& type = *Find(task, "type");
  if (type.is_object() || type.is_array()) {
    Problem("task.type", absl::StrCat("must be a string, not ", JsonExcerpt(type)));
    return std::nullopt;
  }
  // TensorFlow converts the task's type to a string, so a JSON number such as 1 is read as the type
  // "1".
  const auto role = RoleFromName(type.is_string() ? type.get<std::string>() : JsonExcerpt(type));
  if (!role.ok()) {
    Problem("task.type", role.status().message());
    return std::nullopt;
  }
  return *role;
}

std::optional<int> Reader::ReadIndex(const Json& task) {
  const Json& value = *Find(task, "index");
  // TensorFlow converts the task's index to an integer, so the JSON string "1" is read as the index
  // 1.
  const std::string text = value.is_string() ? value.get<std::string>() : JsonExcerpt(value);
  int index = 0;
  const bool number = value.is_number_integer() || value.is_string();
  if (!number || !absl::SimpleAtoi(text, &index)) {
    Problem("task.index", absl::StrCat("must be an integer, not ", JsonExcerpt(value)));
    return std::nullopt;
  }
  if (index < 0) {
    Problem("task.index", absl::StrCat(index, " is negative"));
    return std::nullopt;
  }
  return index;
}

void Reader::CheckTaskInCluster(TaskId task) {
  const std::vector<int> indices = config_.cluster.Indices(task.role);
  const std::string job = RoleName(task.role);
  if (indices.empty()) {
    if (task.role == Role::kEvaluator) return;  // the evaluator may be missing from the cluster
    Problem("task.type",
            absl::StrCat("'", job, "' is not a job of the cluster; add cluster.", job));
  } else if (!config_.cluster.Address(task).ok()) {
    Problem("task.index", absl::StrCat(task.index, " is not a task of cluster.", job,
                                       ", which has ", absl::StrJoin(indices, ", ")));
  }
}

}  // namespace

absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json) {
  // An empty TF_CONFIG counts as an unset TF_CONFIG.
  if (json.find_first_not_of(" \t\r\n") == absl::string_view::npos) return TfConfig();
  ASSIGN_OR_RETURN(const Json root, ParseJsonText(json));
  Reader reader;
  TfConfig config = reader.Read(root);
  if (!reader.problems().empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(reader.problems(), "\n"));
  }
  return config;
}

absl::Status CheckMeantLocal(const TfConfig& config) {
  if (!config.cluster.empty()) return absl::OkStatus();
  if (!config.task.has_value() && config.cluster_lookalike.empty()) return absl::OkStatus();
  const std::string task = config.task.has_value()
                               ? absl::StrCat("names the task ", config.task->ToString(), " but ")
                               : "";
  // A key similar to `cluster` is probably `cluster` misspelt, so the error message names that key.
  const std::string key =
      config.cluster_lookalike.empty()
          ? ""
          : absl::StrCat(" (the key '", config.cluster_lookalike, "' is not known)");
  return absl::InvalidArgumentError(absl::StrCat(
      task, "has no `cluster`", key,
      ": write {\"cluster\": {\"ps\": [\"host:port\"], \"worker\": [\"host:port\"]}, ...}, or "
      "leave TF_CONFIG unset to train on this machine alone"));
}

absl::StatusOr<TfConfig> ReadTfConfig(const Environment& environment) {
  absl::StatusOr<TfConfig> config = ParseTfConfig(environment("TF_CONFIG").value_or(""));
  if (config.ok()) return config;
  // The message has a line for each problem, and each line says where the problem is.
  return absl::Status(config.status().code(),
                      absl::StrCat("TF_CONFIG: ", absl::StrReplaceAll(config.status().message(),
                                                                      {{"\n", "\nTF_CONFIG: "}})));
}

absl::StatusOr<std::string> Master(const TfConfig& config) {
  if (config.session_master) return *config.session_master;
  // A cluster of at most one task has the master "", as with TensorFlow's resolver.
  if (config.cluster.tasks().size() <= 1) return "";
  if (!config.task) {
    return absl::FailedPreconditionError("task: is missing, so there is no own address");
  }
  ASSIGN_OR_RETURN(const std::string address, config.cluster.Address(*config.task));
  return config.rpc_layer.empty() ? address : absl::StrCat(config.rpc_layer, "://", address);
}

std::optional<std::string> ClusterResolver::task_type() const {
  if (!config_.task) return std::nullopt;
  return std::string(RoleName(config_.task->role));
}

std::optional<int> ClusterResolver::task_id() const {
  if (!config_.task) return std::nullopt;
  return config_.task->index;
}

absl::StatusOr<ClusterResolver> TfConfigClusterResolver(const Environment& environment) {
  ASSIGN_OR_RETURN(TfConfig config, ReadTfConfig(environment));
  return ClusterResolver(std::move(config));
}

}  // namespace cohort
