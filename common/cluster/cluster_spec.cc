#include "common/cluster/cluster_spec.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cluster/address.h"

namespace cohort {

namespace {

constexpr std::array<std::pair<Role, const char*>, 4> kRoles = {{{Role::kChief, "chief"},
                                                                 {Role::kWorker, "worker"},
                                                                 {Role::kPs, "ps"},
                                                                 {Role::kEvaluator, "evaluator"}}};

// Returns, of all tasks with the role `role`, the task with the lowest index, or nothing if there
// is no such task.
std::optional<TaskId> First(const ClusterSpec& cluster, Role role) {
  const std::vector<int> indices = cluster.Indices(role);
  if (indices.empty()) return std::nullopt;
  return TaskId{role, indices.front()};
}

absl::Status NotForPs(absl::string_view question) {
  return absl::InvalidArgumentError(absl::StrCat("a ps has no ", question));
}

}  // namespace

const char* RoleName(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "unknown";
}

absl::StatusOr<Role> RoleFromName(absl::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (known == name) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a role; use chief, worker, ps or evaluator"));
}

std::string TaskId::ToString() const { return absl::StrCat(RoleName(role), ":", index); }

void ClusterSpec::Add(TaskId task, std::string address) { tasks_[task] = std::move(address); }

int ClusterSpec::NumTasks(Role role) const { return static_cast<int>(Indices(role).size()); }

std::vector<int> ClusterSpec::Indices(Role role) const {
  std::vector<int> indices;
  for (const auto& [task, address] : tasks_) {
    if (task.role == role) indices.push_back(task.index);
  }
  return indices;
}

absl::StatusOr<std::string> ClusterSpec::Address(TaskId task) const {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) {
    return absl::NotFoundError(absl::StrCat("the cluster has no ", task.ToString()));
  }
  return found->second;
}

absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self) {
  std::vector<std::string> problems;
  for (const auto& [task, text] : cluster.tasks()) {
    if (self && task == *self) continue;
    const auto address = ParseAddress(text);
    if (!address.ok()) {
      // A wrong address does not end the loop, so that one error reports every wrong address of the
      // cluster.
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

}  // namespace cohort
