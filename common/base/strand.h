#pragma once

// A strand runs its tasks one after another, in the order in which they were posted, on the threads
// of an executor. A component whose state is touched only on its strand needs no lock. Tasks that
// are still queued when the strand is destroyed run nevertheless, so a task must own the objects
// that it touches or hold weak references to them.

#include <memory>

#include "common/base/executor.h"

namespace cohort {

// A serial queue of tasks over an executor. Thread-safe.
class Strand {
 public:
  explicit Strand(Executor& executor);
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  void Post(Task task);
  // Runs `task` on the calling thread, before RunOrPost returns, if no other task of the strand is
  // running or queued. Otherwise posts `task` as Post() does. Meant for a caller that holds no lock
  // and that would only wait for another thread to run the task.
  void RunOrPost(Task task);

 private:
  struct State;
  static void Drain(const std::shared_ptr<State>& state);

  // The queue and its mutex. Shared with the task that waits in the executor to run the queue,
  // because that task may outlive the strand.
  const std::shared_ptr<State> state_;
};

}  // namespace cohort
