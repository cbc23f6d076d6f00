#pragma once

// The memory of the homes of variables. Two questions are answered: do the job's variables fit into
// the memory that each home may use, and does a home that is lost again and again end because it
// lacks memory? The operating system kills a process that outgrows its limit without a message. A
// job that is put back to its checkpoint would then be killed at the same place for ever.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/strategy/memory_need.h"

namespace cohort {

// The number of losses of one home, with no closure done between them, after which lack of memory
// is taken as the cause.
inline constexpr int kLossesForMemory = 3;

// Compares the memory that variables need with the memory that each home has. Thread-safe.
class HomeMemory {
 public:
  struct Options {
    Role homes = Role::kPs;
    std::vector<int> indices;  // task indices of all homes
    bool one_machine = false;
  };
  explicit HomeMemory(Options options) : options_(std::move(options)) {}

  // Adds variables to those of earlier calls and checks that all of them fit; the homes must serve
  // already. Errors: those of CheckMemory, and then none of the new variables is counted.
  absl::Status Add(absl::Span<const proto::VariableLayout> variables);

  // Note that a process of a home serves, or is gone, after `done` closures in all. A process that
  // takes the place of an earlier process shows that the earlier one is gone. Errors:
  // RESOURCE_EXHAUSTED (CONFIGURATION) naming the memory that the home needs and has, if training
  // needs more than the home has and this is the home's third loss with no closure done in between.
  absl::Status OnServing(const TaskLink& link, uint64_t done);
  absl::Status OnLost(int home, uint64_t done);

 private:
  struct Home {
    uint64_t limit = 0;        // memory that the process may use, in bytes; 0: unknown
    uint64_t incarnation = 0;  // incarnation of the process that served last
    uint64_t last_lost = 0;    // the incarnation whose loss was counted last: each counts once
    int losses = 0;            // losses in a row while no closure was done
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
