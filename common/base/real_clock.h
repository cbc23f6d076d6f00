#pragma once

// The Clock of every daemon: the machine's time. The simulator has a clock of its own, which is
// moved by hand.

#include <map>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

// The machine's time, with one timer thread. Timers follow the monotonic clock, so a step of the
// wall clock neither fires nor delays a timer. Now() starts from the wall clock at construction and
// then follows the monotonic clock. Thread-safe.
class RealClock final : public Clock {
 public:
  RealClock();
  ~RealClock() override;

  // Ends the timer thread. When Stop() returns, no timer's task is running and none will run; Now()
  // keeps working. Idempotent. Must not be called from a timer's task, and only by one thread.
  void Stop();

  absl::Time Now() const override;
  TimerId CallAt(absl::Time when, Task task) override;
  bool Cancel(TimerId timer) override;

 private:
  using Key = std::pair<absl::Time, uint64_t>;
  void Work();

  const absl::Time wall_start_;
  const std::chrono::steady_clock::time_point steady_start_;
  Mutex mutex_;
  CondVar wake_;
  std::map<Key, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, absl::Time> time_of_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member, because the thread uses all other members
};

}  // namespace cohort
