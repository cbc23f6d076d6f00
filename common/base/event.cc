#include "common/base/event.h"

#include <chrono>

namespace cohort {

bool Event::WaitFor(absl::Duration timeout) const {
  const bool forever = timeout == absl::InfiniteDuration();
  const auto deadline = std::chrono::steady_clock::now() +
                        absl::ToChronoNanoseconds(forever ? absl::ZeroDuration() : timeout);
  MutexLock lock(mutex_);
  while (!happened_) {
    if (forever) {
      wake_.Wait(mutex_);
      continue;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    wake_.WaitFor(mutex_, absl::FromChrono(left));
  }
  return true;
}

}  // namespace cohort
