#pragma once

// Checks of what a state machine must always keep, where nobody waits for speed: on in builds with
// assertions (the sanitizers'), and in the simulator, which switches them on; off in daemons. A
// class has CheckInvariants, and each of its public calls that changes something begins with
//   const InvariantsAfter check(*this);
// behind its lock, so that the call ends with the check and still holds the lock.

#include <atomic>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"

namespace cohort {

namespace internal {
#ifdef NDEBUG
inline std::atomic<bool> checks_invariants{false};
#else
inline std::atomic<bool> checks_invariants{true};
#endif
}  // namespace internal

// Limits walks over all elements: a call stays cheap, and what is wrong with a large collection is
// wrong with a small one.
inline constexpr size_t kInvariantWalkMax = 64;
// The same limit for an object that is checked several times for each closure.
inline constexpr size_t kFrequentWalkMax = kInvariantWalkMax / 8;

// Returns whether invariants are checked in this process. Thread-safe.
inline bool ChecksInvariants() {
  return internal::checks_invariants.load(std::memory_order_relaxed);
}
inline void CheckInvariantsFromNowOn() { internal::checks_invariants.store(true); }

// Checks the invariants of an object at the end of its scope. Thread-compatible.
template <typename T>
class InvariantsAfter {
 public:
  explicit InvariantsAfter(const T& checked) : checked_(checked) {}
  // The scope holds the lock, if the object has one.
  ~InvariantsAfter() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (ChecksInvariants()) [[unlikely]] {
      checked_.CheckInvariants();
    }
  }
  InvariantsAfter(const InvariantsAfter&) = delete;
  InvariantsAfter& operator=(const InvariantsAfter&) = delete;

 private:
  const T& checked_;
};

}  // namespace cohort

// Checks a condition where invariants are checked.
#define COHORT_DCHECK(condition, message)                               \
  do {                                                                  \
    if (::cohort::ChecksInvariants()) COHORT_CHECK(condition, message); \
  } while (false)
