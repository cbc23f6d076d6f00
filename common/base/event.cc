#include "common/base/event.h"

#include <chrono>

namespace cohort {

bool Event::WaitFor(absl::Duration timeout) const {
  // An infinite timeout cannot be added to a time point, so a wait with an infinite timeout has no
  // deadline.
  const bool forever = timeout == absl::InfiniteDuration();
  const auto deadline = std::chrono::steady_clock::now() +
                        absl::ToChronoNanoseconds(forever ? absl::ZeroDuration() : timeout);
  MutexLock lock(mutex_);
  while (!happened_) {
    if (forever) {
      wake_.Wait(mutex_);
      continue;
    }
    // The remaining time is computed again after each wake-up, because a wake-up may be spurious.
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    wake_.WaitFor(mutex_, absl::FromChrono(left));
  }
  return true;
}

}  // namespace cohort
