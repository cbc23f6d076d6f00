#pragma once

// A cluster is a set of tasks. A task has a role ("chief", "worker", "ps", "evaluator"), an index
// and an address "host:port". The indices of a role may have holes (TensorFlow's sparse form). Only
// the coordinator and the evaluator may be absent from the specification of their own cluster.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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
  // Returns the address of a task. Errors: NOT_FOUND if the cluster does not have the task.
  absl::StatusOr<std::string> Address(TaskId task) const;
  const std::map<TaskId, std::string>& tasks() const { return tasks_; }

 private:
  std::map<TaskId, std::string> tasks_;
};

}  // namespace cohort
