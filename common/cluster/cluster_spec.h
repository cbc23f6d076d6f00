#pragma once

// A cluster is a set of tasks: a role ("chief", "worker", "ps", "evaluator"), an index and an
// address "host:port". Indices of a role may have holes (TensorFlow's sparse form). A task may be
// absent from its own cluster's spec only if it is the coordinator or the evaluator.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cohort {

enum class Role { kChief, kWorker, kPs, kEvaluator };

// Returns "chief", "worker", "ps" or "evaluator".
const char* RoleName(Role role);
// Errors: INVALID_ARGUMENT naming the four.
absl::StatusOr<Role> RoleFromName(absl::string_view name);

struct TaskId {
  Role role = Role::kWorker;
  int index = 0;
  std::string ToString() const;  // "worker:1"
  friend bool operator==(const TaskId& a, const TaskId& b) {
    return a.role == b.role && a.index == b.index;
  }
  friend bool operator<(const TaskId& a, const TaskId& b) {
    return a.role != b.role ? a.role < b.role : a.index < b.index;
  }
};

// Thread-compatible.
class ClusterSpec {
 public:
  void Add(TaskId task, std::string address);

  bool empty() const { return tasks_.empty(); }
  int NumTasks(Role role) const;
  // Indices present, ascending.
  std::vector<int> Indices(Role role) const;
  // Errors: NOT_FOUND.
  absl::StatusOr<std::string> Address(TaskId task) const;
  const std::map<TaskId, std::string>& tasks() const { return tasks_; }

 private:
  std::map<TaskId, std::string> tasks_;
};

}  // namespace cohort
