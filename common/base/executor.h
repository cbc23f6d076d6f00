#pragma once

// An Executor runs tasks, in any order and on any thread. Code that needs an order takes a Strand
// (strand.h).

#include "absl/functional/any_invocable.h"

namespace cohort {

using Task = absl::AnyInvocable<void()>;

// Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;

  // Queues `task`; never runs it inside the call.
  virtual void Run(Task task) = 0;
};

}  // namespace cohort
