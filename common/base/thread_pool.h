#pragma once

// The Executor of every daemon: threads that share one queue. Each task runs once, on any of the
// threads; a Strand (strand.h) over the pool runs its tasks one after another.

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/turns.h"

namespace cohort {

// A fixed number of named threads that take tasks from one queue. Thread-safe.
class ThreadPool final : public Executor {
 public:
  struct Options {
    std::string name;  // the operating system shows at most 12 characters of the name
    int threads = 1;
    // The length of the threads' time slices (turns.h); nullopt keeps the length that the creating
    // thread has.
    absl::optional<Turns> turns = absl::nullopt;
  };

  explicit ThreadPool(Options options);
  // Stops the pool, and drops tasks that were given to it later.
  ~ThreadPool() override;

  void Run(Task task) override;
  // Runs the queued tasks, and those that they give to the pool, and joins the threads. Tasks that
  // the pool gets afterwards never run. Must not be called by a task, nor by two threads at once.
  void Stop();

 private:
  void Work(absl::optional<Turns> turns);

  Mutex mutex_;
  CondVar wake_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // threads of the pool; empty after Stop()
};

}  // namespace cohort
