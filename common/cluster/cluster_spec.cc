#include "common/cluster/cluster_spec.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {
constexpr std::array<std::pair<Role, const char*>, 4> kRoles = {{{Role::kChief, "chief"},
                                                                 {Role::kWorker, "worker"},
                                                                 {Role::kPs, "ps"},
                                                                 {Role::kEvaluator, "evaluator"}}};
}

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

}  // namespace cohort
