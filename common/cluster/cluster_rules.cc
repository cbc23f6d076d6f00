#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/tf_config.h"

namespace cohort {

namespace {

// Returns the task of the role with the lowest index, or nothing if there is none.
std::optional<TaskId> First(const ClusterSpec& cluster, Role role) {
  const std::vector<int> indices = cluster.Indices(role);
  if (indices.empty()) return std::nullopt;
  return TaskId{role, indices.front()};
}

absl::Status NotForPs(absl::string_view question) {
  return absl::InvalidArgumentError(absl::StrCat("a ps has no ", question));
}

}  // namespace

absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self) {
  std::vector<std::string> problems;
  for (const auto& [task, text] : cluster.tasks()) {
    if (self && task == *self) continue;
    const auto address = ParseAddress(text);
    if (!address.ok()) {
      // All problems are collected, so that one run of the program reports every wrong address.
      problems.push_back(absl::StrCat(task.ToString(), ": ", address.status().message()));
    } else if (address->unix_path.empty() && address->port == 0) {
      problems.push_back(absl::StrCat(task.ToString(), ": '", text,
                                      "' has port 0, to which nobody ",
                                      "can connect; give the port it listens on"));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

bool IsChief(const ClusterSpec& cluster, TaskId task) {
  if (task.role == Role::kChief || task.role == Role::kEvaluator) return true;
  return task.role == Role::kWorker && task.index == 0 && cluster.NumTasks(Role::kChief) == 0;
}

absl::StatusOr<int> WorkerCount(const ClusterSpec& cluster, Role role) {
  if (role == Role::kPs) return NotForPs("worker count");
  if (role == Role::kEvaluator) return cluster.NumTasks(Role::kEvaluator);
  return cluster.NumTasks(Role::kChief) + cluster.NumTasks(Role::kWorker);
}

absl::StatusOr<int> IdInCluster(const ClusterSpec& cluster, TaskId task) {
  if (task.role == Role::kPs) return NotForPs("id among the workers");
  if (task.role == Role::kChief) return 0;
  if (task.role == Role::kEvaluator) return task.index;
  return task.index + cluster.NumTasks(Role::kChief);
}

std::optional<TaskId> CollectiveLeader(const ClusterSpec& cluster, std::optional<TaskId> task) {
  if (task && task->role == Role::kEvaluator) return std::nullopt;
  if (const auto chief = First(cluster, Role::kChief)) return chief;
  return First(cluster, Role::kWorker);
}

std::optional<TaskId> CoordinationLeader(const ClusterSpec& cluster) {
  for (const Role role : {Role::kPs, Role::kChief, Role::kWorker}) {
    if (const auto leader = First(cluster, role)) return leader;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> Master(const TfConfig& config) {
  if (config.session_master) return *config.session_master;
  // TensorFlow's resolver also returns "" for a cluster of one task.
  if (config.cluster.tasks().size() <= 1) return "";
  if (!config.task) {
    return absl::FailedPreconditionError("task: is missing, so there is no own address");
  }
  ASSIGN_OR_RETURN(const std::string address, config.cluster.Address(*config.task));
  return config.rpc_layer.empty() ? address : absl::StrCat(config.rpc_layer, "://", address);
}

}  // namespace cohort
