#pragma once

// Checks of the memory of the homes of variables. A check answers one of two questions: do the
// job's variables fit into the memory that each home may use; is a home lost again and again
// because it lacks memory? The operating system kills a process that outgrows its memory limit,
// without a message. Without the second check, a job that is restored from its checkpoint would be
// killed at the same step again and again.

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "coordinator/cluster/task_connection.h"
#include "coordinator/strategy/memory_need.h"

namespace cohort {

// The number of consecutive losses of one home, with no closure done between them, from which on
// lack of memory is taken to be the cause.
inline constexpr int kLossesForMemory = 3;

// Compares the memory that the homes of variables need with the memory that they may use.
// Thread-safe.
class HomeMemory {
 public:
  struct Options {
    Role homes = Role::kPs;
    std::vector<int> indices;  // task indices of all homes
    bool one_machine = false;
  };
  explicit HomeMemory(Options options) : options_(std::move(options)) {}

  // Adds variables to those of earlier calls, and checks that all of them fit into the memory of
  // their homes. Every home must serve already. Errors: those of CheckMemory; the new variables are
  // then not added.
  absl::Status Add(absl::Span<const proto::VariableLayout> variables);

  // OnServing notes that a process of a home serves, and OnLost that a home is lost. `done` is the
  // number of closures done so far in the job. A new process at a home shows that the home's
  // earlier process is lost. Errors: RESOURCE_EXHAUSTED (CONFIGURATION) naming the memory that the
  // home needs and has, if training needs more than the home has and the home was lost
  // kLossesForMemory times or more with no closure done in between.
  absl::Status OnServing(const TaskLink& link, uint64_t done);
  absl::Status OnLost(int home, uint64_t done);

 private:
  struct Home {
    // The memory that the home's process may use, in bytes; 0 if not known.
    uint64_t limit = 0;
    // The incarnation of the home's process that served last.
    uint64_t incarnation = 0;
    // The incarnation of the home's process whose loss was counted last.
    uint64_t last_lost = 0;
    // The number of losses in a row between which no closure was done.
    int losses = 0;
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
