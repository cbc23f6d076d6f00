#include "coordinator/api/home_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

absl::Status HomeMemory::OnServing(const TaskLink& link, uint64_t done) {
  MutexLock lock(mutex_);
  Home& home = homes_[link.task.index()];
  // If a new process of the home serves, the home's earlier process is lost, even if OnLost was not
  // called yet.
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
  // The variables so far, which are put back if the new ones do not fit.
  const std::map<std::string, proto::VariableLayout> before = variables_;
  for (const proto::VariableLayout& layout : variables) variables_[layout.name()] = layout;
  MemoryLimits limits{options_.homes, {}, options_.one_machine};
  for (const auto& [index, home] : homes_) {
    // A home that has not reported its memory limit is not checked.
    if (home.limit > 0) limits.bytes[index] = home.limit;
  }
  absl::Status fits = CheckMemory(NeedsLocked(), limits);
  if (!fits.ok()) variables_ = before;
  return fits;
}

absl::Status HomeMemory::CountLossLocked(int index, uint64_t done) {
  Home& home = homes_[index];
  // Each loss is reported twice: by OnLost, and by OnServing when the home's next process serves.
  // The second report is ignored.
  if (home.incarnation == home.last_lost) return absl::OkStatus();
  home.last_lost = home.incarnation;
  // If a closure was done since the home's last loss, the home can work with its memory, so the
  // count of losses starts anew.
  home.losses = done == home.done ? home.losses + 1 : 1;
  home.done = done;
  if (home.limit == 0 || home.losses < kLossesForMemory) return absl::OkStatus();
  const MemoryNeed need = NeedsLocked()[index];
  // If the home has enough memory for training, the losses have another cause, and the job
  // continues.
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
