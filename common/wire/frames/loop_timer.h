#pragma once

// A timer of an IoLoop that can be set to an earlier time again and again. Internal to common/wire.

#include <functional>
#include <memory>

#include "common/base/mutex.h"
#include "common/wire/frames/io_loop.h"

namespace cohort {

// A timer with one callback, which runs on the loop's thread. Thread-safe.
class LoopTimer : public std::enable_shared_from_this<LoopTimer> {
 public:
  // Makes a timer whose `fire` runs on the loop's thread. The loop outlives the timer.
  static std::shared_ptr<LoopTimer> Make(IoLoop& loop, std::function<void()> fire);

  // Makes the timer fire at `time`, or earlier if it is already set to an earlier time.
  void FireBy(IoLoop::Time time);

  // Stops the timer. The timer's callback may be running now.
  void Stop();

 private:
  LoopTimer(IoLoop& loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {}
  void Fire();

  IoLoop& loop_;
  const std::function<void()> fire_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Id of the loop's task that will fire; 0: none is set.
  uint64_t run_ ABSL_GUARDED_BY(mutex_) = 0;
  IoLoop::Time next_ ABSL_GUARDED_BY(mutex_) = IoLoop::Time::max();
};

}  // namespace cohort
