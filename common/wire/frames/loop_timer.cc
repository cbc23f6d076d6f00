#include "common/wire/frames/loop_timer.h"

#include <utility>

namespace cohort {

std::shared_ptr<LoopTimer> LoopTimer::Make(IoLoop& loop, std::function<void()> fire) {
  return std::shared_ptr<LoopTimer>(new LoopTimer(loop, std::move(fire)));
}

void LoopTimer::FireBy(IoLoop::Time time) {
  MutexLock lock(mutex_);
  // A later time needs no second alarm: the callback sets the timer again.
  if (stopped_ || time >= next_) return;
  loop_.CancelRun(run_);
  next_ = time;
  run_ = loop_.RunAt(time, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Fire();
  });
}

void LoopTimer::Fire() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    run_ = 0;
    // The timer is unset before `fire_` runs, because `fire_` may set it again.
    next_ = IoLoop::Time::max();
  }
  // The callback runs outside the lock, because it may call FireBy or Stop.
  fire_();
}

void LoopTimer::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  loop_.CancelRun(run_);
}

}  // namespace cohort
