#include "common/base/real_clock.h"

#include <pthread.h>

#include "absl/time/clock.h"

namespace cohort {

RealClock::RealClock()
    : wall_start_(absl::Now()),
      steady_start_(std::chrono::steady_clock::now()),
      thread_([this] { Work(); }) {
  pthread_setname_np(thread_.native_handle(), "clock");
}

RealClock::~RealClock() { Stop(); }

void RealClock::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Time RealClock::Now() const {
  // Now() adds the monotonic time since construction to the wall time at construction, so setting
  // the machine's wall clock does not change what Now() returns.
  return wall_start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
}

TimerId RealClock::CallAt(absl::Time when, Task task) {
  MutexLock lock(mutex_);
  const uint64_t id = ++last_id_;
  // The key of a timer is its time and its id, so that keys are unique. Timers with equal times
  // fire in the order of their ids.
  timers_.emplace(Key(when, id), std::move(task));
  time_of_.emplace(id, when);
  // The timer thread is woken because the new timer may be earlier than the timer for which the
  // thread waits.
  wake_.NotifyAll();
  return TimerId{id};
}

bool RealClock::Cancel(TimerId timer) {
  // The task is destroyed after the mutex is unlocked, because a task's destructor may call any
  // code. So `cancelled` is declared before the lock.
  Task cancelled;
  MutexLock lock(mutex_);
  const auto found = time_of_.find(timer.value);
  if (found == time_of_.end()) return false;
  const auto entry = timers_.find(Key(found->second, timer.value));
  cancelled = std::move(entry->second);
  timers_.erase(entry);
  time_of_.erase(found);
  return true;
}

void RealClock::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (timers_.empty() || timers_.begin()->first.first > Now())) {
        if (timers_.empty()) {
          wake_.Wait(mutex_);
        } else {
          wake_.WaitFor(mutex_, timers_.begin()->first.first - Now());
        }
      }
      // Once Stop() was called, the thread ends, and the tasks of timers that have not fired never
      // run.
      if (stopping_) return;
      task = std::move(timers_.begin()->second);
      time_of_.erase(timers_.begin()->first.second);
      timers_.erase(timers_.begin());
    }
    // The task runs without the lock, so that it may set and cancel timers.
    task();
  }
}

}  // namespace cohort
