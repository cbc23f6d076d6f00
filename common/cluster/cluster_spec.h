#pragma once

// A cluster is a set of tasks. A task has a role ("chief", "worker", "ps", "evaluator"), an index
// and an address "host:port". The indices of a role may have holes (TensorFlow's sparse form). Only
// the coordinator and the evaluator may be absent from the specification of their own cluster.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

enum class Role { kChief, kWorker, kPs, kEvaluator };

// Returns the name of a role: "chief", "worker", "ps" or "evaluator".
const char* RoleName(Role role);
// Returns the role with the given name. Errors: INVALID_ARGUMENT that lists the four names.
absl::StatusOr<Role> RoleFromName(absl::string_view name);

struct TaskId {
  Role role = Role::kWorker;
  int index = 0;
  std::string ToString() const;  // returns text such as "worker:1"
  friend bool operator==(const TaskId& a, const TaskId& b) {
    return a.role == b.role && a.index == b.index;
  }
  friend bool operator<(const TaskId& a, const TaskId& b) {
    return a.role != b.role ? a.role < b.role : a.index < b.index;
  }
};

// The tasks of a cluster and their addresses. Thread-compatible.
class ClusterSpec {
 public:
  void Add(TaskId task, std::string address);

  bool empty() const { return tasks_.empty(); }
  int NumTasks(Role role) const;
  // Returns the indices of the role's tasks, ascending.
  std::vector<int> Indices(Role role) const;
  // Returns the address of a task. Errors: NOT_FOUND if the cluster does not have this task.
  absl::StatusOr<std::string> Address(TaskId task) const;
  const std::map<TaskId, std::string>& tasks() const { return tasks_; }

 private:
  std::map<TaskId, std::string> tasks_;
};

// Checks that other tasks can connect to every task of the cluster except `self`. Errors:
// INVALID_ARGUMENT that names every task whose address is wrong or has port 0.
absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self);

// The functions below correspond to TensorFlow's multi_worker_util. Their parameter `task` is a
// task of the cluster, or an evaluator that the cluster does not list.

// Returns true if the task counts as the chief: a chief, an evaluator, or worker 0 of a cluster
// without a chief.
bool IsChief(const ClusterSpec& cluster, TaskId task);
// Returns the number of tasks that train together: of chiefs and workers, or of evaluators if
// `role` is the evaluator. Errors: INVALID_ARGUMENT if `role` is ps.
absl::StatusOr<int> WorkerCount(const ClusterSpec& cluster, Role role);
// Returns an id that is unique among the chief and the workers, or among the evaluators: 0 for the
// chief, i + number of chiefs for worker i, and the index for an evaluator. Errors:
// INVALID_ARGUMENT if `task` is a ps.
absl::StatusOr<int> IdInCluster(const ClusterSpec& cluster, TaskId task);
// Returns the task that leads collective calls: the chief, or else the first worker. Returns
// nothing if `task` is an evaluator, or if the cluster has neither a chief nor a worker.
std::optional<TaskId> CollectiveLeader(const ClusterSpec& cluster, std::optional<TaskId> task);
// Returns the task that leads the coordination of the cluster, by TensorFlow's rule: the first ps,
// else the chief, else the first worker. Returns nothing if the cluster has none of these tasks.
std::optional<TaskId> CoordinationLeader(const ClusterSpec& cluster);

}  // namespace cohort
