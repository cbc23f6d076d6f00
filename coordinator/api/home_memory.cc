#include "coordinator/api/home_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

absl::Status HomeMemory::OnServing(const TaskLink& link, uint64_t done) {
  MutexLock lock(mutex_);
  Home& home = homes_[link.task.index()];
  // The loss of the earlier process may not have been reported before its successor serves.
  const bool replaces = home.incarnation != 0 && home.incarnation != link.task.incarnation();
  const absl::Status hopeless =
      replaces ? CountLossLocked(link.task.index(), done) : absl::OkStatus();
  home.limit = link.memory_bytes;
  home.incarnation = link.task.incarnation();
  return hopeless;
}

absl::Status HomeMemory::OnLost(int index, uint64_t done) {
  MutexLock lock(mutex_);
  return CountLossLocked(index, done);
}

std::map<int, MemoryNeed> HomeMemory::NeedsLocked() const {
  std::vector<proto::VariableLayout> variables;
  for (const auto& [name, layout] : variables_) variables.push_back(layout);
  return MemoryNeeds(variables, options_.indices);
}

absl::Status HomeMemory::Add(absl::Span<const proto::VariableLayout> variables) {
  MutexLock lock(mutex_);
  // Kept to undo the addition if the variables do not fit.
  const std::map<std::string, proto::VariableLayout> before = variables_;
  for (const proto::VariableLayout& layout : variables) variables_[layout.name()] = layout;
  MemoryLimits limits{options_.homes, {}, options_.one_machine};
  for (const auto& [index, home] : homes_) {
    // A home that does not report its memory is not checked.
    if (home.limit > 0) limits.bytes[index] = home.limit;
  }
  absl::Status fits = CheckMemory(NeedsLocked(), limits);
  if (!fits.ok()) variables_ = before;
  return fits;
}

absl::Status HomeMemory::CountLossLocked(int index, uint64_t done) {
  Home& home = homes_[index];
  // One loss is reported both by OnLost and by the process that follows.
  if (home.incarnation == home.last_lost) return absl::OkStatus();
  home.last_lost = home.incarnation;
  // A closure that was done in between proves that the home can work with its memory.
  home.losses = done == home.done ? home.losses + 1 : 1;
  home.done = done;
  if (home.limit == 0 || home.losses < kLossesForMemory) return absl::OkStatus();
  const MemoryNeed need = NeedsLocked()[index];
  // A home with enough memory is lost for another reason, so the job goes on.
  if (static_cast<uint64_t>(need.in_training()) <= home.limit) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat(RoleName(options_.homes), ":", index, " was lost ", home.losses,
                   " times with no closure done between, and it needs more memory than it may "
                   "have: ",
                   need.resident, " bytes for variables and their slots and up to ", need.values,
                   " more while it trains, of ", home.limit,
                   "; the system ends a process that outgrows its limit (signal 9). Use more "
                   "parameter servers, or give the task more memory"),
      proto::CONFIGURATION);
}

}  // namespace cohort
