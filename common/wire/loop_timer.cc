#include "common/wire/loop_timer.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace cohort {

std::shared_ptr<LoopTimer> LoopTimer::Make(IoLoop& loop, std::function<void()> fire) {
  std::shared_ptr<LoopTimer> timer(new LoopTimer(std::move(fire)));
  loop.Add(timer, EPOLLIN);
  return timer;
}

LoopTimer::LoopTimer(std::function<void()> fire)
    : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)), fire_(std::move(fire)) {
  COHORT_CHECK(timer_.ok(), "the process may open a timer");
}

void LoopTimer::FireBy(std::chrono::steady_clock::time_point time) {
  MutexLock lock(mutex_);
  if (time >= next_) return;
  next_ = time;
  // Zero would disarm it.
  const auto since_start = std::max(time.time_since_epoch(), std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  itimerspec when = {};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (since_start - seconds).count();
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void LoopTimer::OnEvents(uint32_t events) {
  uint64_t times = 0;
  if (read(timer_.get(), &times, sizeof(times)) != sizeof(times)) return;
  {
    MutexLock lock(mutex_);
    next_ = std::chrono::steady_clock::time_point::max();
  }
  fire_();
}

}  // namespace cohort
