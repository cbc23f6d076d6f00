#include "common/wire/moved_bytes.h"

namespace cohort {

absl::Duration LongestTime(absl::Duration silence, size_t bytes) {
  return silence + absl::Seconds(static_cast<double>(bytes) / kBytesPerSecondMin);
}

void MovedBytes::Add(size_t bytes) {
  const uint64_t total = total_.fetch_add(bytes) + bytes;
  uint64_t counted = counted_.load();
  // Another thread may have counted a later total already.
  if (total < counted || total - counted < kProgressBytes) return;
  // Of two threads that count at the same time, one notes the time.
  if (counted_.compare_exchange_strong(counted, total)) {
    last_.store(now_().time_since_epoch().count());
  }
}

absl::Duration MovedBytes::Since() const {
  const Time last = this->last();
  return last == Time::min() ? absl::InfiniteDuration() : absl::FromChrono(now_() - last);
}

}  // namespace cohort
