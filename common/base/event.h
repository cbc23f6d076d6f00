#pragma once

// An event that happens once, and the waiters that block until the event has happened. The blocking
// public API (Schedule, Join, Fetch) waits through a Waiter and is otherwise asynchronous. A
// daemon's waiter blocks the calling thread, and the simulator's waiter runs the simulator's event
// queue until the event has happened. So the same blocking API works in a daemon and in the
// simulator.

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace cohort {

// A flag that is set once and that threads can wait for. Thread-safe.
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
  // Blocks until the event has happened. Returns false if `timeout` passed first.
  bool WaitFor(absl::Duration timeout) const;

 private:
  mutable Mutex mutex_;
  mutable CondVar wake_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

// The way in which a blocking API call waits for an event. Thread-safe.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Waits until `event` has happened. Returns false if `timeout` passed first. Must not be called
  // on a strand or on a transport's thread.
  virtual bool Wait(const Event& event, absl::Duration timeout) = 0;
};

// The daemons' waiter, which blocks the calling thread. Thread-safe.
class BlockingWaiter final : public Waiter {
 public:
  bool Wait(const Event& event, absl::Duration timeout) override { return event.WaitFor(timeout); }
};

}  // namespace cohort
