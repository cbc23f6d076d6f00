#pragma once

// A thing that happens once, and who waits for it. The blocking public API (Schedule, Join, Fetch)
// waits through a Waiter and is otherwise asynchronous: a daemon's waiter blocks the calling
// thread, the simulator's runs its event queue until the event has happened, so the same calls work
// in both.

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace cohort {

// Thread-safe.
class Event {
 public:
  void Notify() {
    MutexLock lock(mutex_);
    happened_ = true;
    wake_.NotifyAll();
  }
  bool HasHappened() const {
    MutexLock lock(mutex_);
    return happened_;
  }
  // Returns false if `timeout` passed first.
  bool WaitFor(absl::Duration timeout) const;

 private:
  mutable Mutex mutex_;
  mutable CondVar wake_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread-safe.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Returns false if the time ran out first. Must not be called on a strand or on a transport's
  // thread.
  virtual bool Wait(const Event& event, absl::Duration timeout) = 0;
};

// Thread-safe.
class BlockingWaiter final : public Waiter {
 public:
  bool Wait(const Event& event, absl::Duration timeout) override { return event.WaitFor(timeout); }
};

}  // namespace cohort
