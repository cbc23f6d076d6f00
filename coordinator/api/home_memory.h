#pragma once

// The memory of the homes of variables: whether the job's variables fit into what each home may
// have, and whether a home that is lost again and again is lost for want of it. The system kills a
// process that outgrows its limit and says nothing, so a job that is put back to its checkpoint
// would be killed there for ever.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/strategy/memory_need.h"

namespace cohort {

// Losses of one home, with no closure done between them, after which want of memory is the cause.
inline constexpr int kLossesForMemory = 3;

// Thread-safe.
class HomeMemory {
 public:
  struct Options {
    Role homes = Role::kPs;
    std::vector<int> indices;  // indices of all homes
    bool one_machine = false;
  };
  explicit HomeMemory(Options options) : options_(std::move(options)) {}

  // Counts these variables beside those of earlier calls; the homes serve. Errors: those of
  // CheckMemory, and then none of them is counted.
  absl::Status Add(absl::Span<const proto::VariableLayout> variables);

  // Note that a process of a home serves, or is gone; `done` closures were done until now. A
  // process that takes the place of another one shows that the other is gone. Errors:
  // RESOURCE_EXHAUSTED (CONFIGURATION) naming what the home needs and what it may have, if training
  // needs more than that and this is the third loss with no closure done between.
  absl::Status OnServing(const TaskLink& link, uint64_t done);
  absl::Status OnLost(int home, uint64_t done);

 private:
  struct Home {
    uint64_t limit = 0;        // bytes; 0: unknown
    uint64_t incarnation = 0;  // the process that served last
    uint64_t last_lost = 0;    // incarnation whose loss was counted last: each counts once
    int losses = 0;            // losses at the same number of `done` closures
    uint64_t done = 0;
  };
  absl::Status CountLossLocked(int index, uint64_t done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::map<int, MemoryNeed> NeedsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Mutex mutex_;
  std::map<std::string, proto::VariableLayout> variables_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Home> homes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
