#pragma once

// State machines check their invariants where the time of the checks does not matter: in builds
// with assertions (such as sanitizer builds), and in the simulator, which switches the checks on.
// Daemons built for release do not check invariants. A class whose invariants are checked has a
// method CheckInvariants. Each public method that changes the object locks the object's mutex and
// then begins with
//   const InvariantsAfter check(*this);
// so that the check runs when the method returns, and before the mutex is unlocked.

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

// The largest number of elements of one collection that a call of CheckInvariants visits. The limit
// keeps the check cheap, and a bug that breaks a large collection breaks a small one too.
inline constexpr size_t kInvariantWalkMax = 64;
// A lower limit than kInvariantWalkMax, for an object whose invariants are checked several times
// for each closure.
inline constexpr size_t kFrequentWalkMax = kInvariantWalkMax / 8;

// Returns whether invariants are checked in this process. Thread-safe.
inline bool ChecksInvariants() {
  return internal::checks_invariants.load(std::memory_order_relaxed);
}
inline void CheckInvariantsFromNowOn() { internal::checks_invariants.store(true); }

// Checks the invariants of an object when this InvariantsAfter is destroyed, at the end of a scope.
// Thread-compatible.
template <typename T>
class InvariantsAfter {
 public:
  explicit InvariantsAfter(const T& checked) : checked_(checked) {}
  // Clang's thread-safety analysis is off for this destructor, because it cannot see that the
  // enclosing scope has locked the mutex of the checked object.
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

// Aborts the process if `condition` is false and this process checks invariants (ChecksInvariants).
#define COHORT_DCHECK(condition, message)                               \
  do {                                                                  \
    if (::cohort::ChecksInvariants()) COHORT_CHECK(condition, message); \
  } while (false)
