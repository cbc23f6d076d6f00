#pragma once

// An Executor runs tasks, in any order and on any thread. Code that needs its tasks in order takes
// a Strand (strand.h).

#include "absl/functional/any_invocable.h"

namespace cohort {

using Task = absl::AnyInvocable<void()>;

// The interface of thread pools and of the simulated executor. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;

  // Queues `task` to run later. Never runs `task` on the calling thread inside Run; another thread
  // may run `task` before Run returns.
  virtual void Run(Task task) = 0;
};

}  // namespace cohort
