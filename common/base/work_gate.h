#pragma once

// The way to end work that runs on threads of others before the objects that it uses are destroyed:
// the work enters a gate, and the owner of the objects closes it.

#include "common/base/mutex.h"

namespace cohort {

// A gate for work on other threads that uses objects which its owner does not own, such as a
// transport. After Close(), these objects may be destroyed. Thread-safe.
class WorkGate {
 public:
  // Returns whether the work may begin. If it may, the caller calls Leave() at its end.
  [[nodiscard]] bool Enter() {
    MutexLock lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    MutexLock lock(mutex_);
    if (--inside_ == 0) empty_.NotifyAll();
  }
  // Lets no more work begin, and waits for the work that has begun. Must not be called by such
  // work, nor with a lock that such work takes.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) empty_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar empty_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
