#pragma once

// A strand runs its tasks one after another in the order in which they were posted, on the threads
// of an executor. A component whose state is touched only on its strand needs no lock. Tasks that
// are still queued when the strand dies are run all the same: they own what they touch or post a
// weak reference.

#include <memory>

#include "common/base/executor.h"

namespace cohort {

// Thread-safe.
class Strand {
 public:
  explicit Strand(Executor& executor);
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  void Post(Task task);
  // Runs `task` like Post, but on the calling thread and before returning if no task of the strand
  // is running. Meant for a caller that holds no lock and would only wait for another thread to
  // wake up.
  void RunOrPost(Task task);

  // Returns true on the thread that now runs a task of this strand.
  bool IsCurrent() const;

 private:
  struct State;
  static void Drain(const std::shared_ptr<State>& state);

  // Shared with the executor's pending drain task, which may outlive the strand.
  const std::shared_ptr<State> state_;
};

}  // namespace cohort
