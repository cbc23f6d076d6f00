#include "common/base/invariants.h"

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// Counts to ten.
class Counter {
 public:
  void Count() {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    ++count_;
  }

 private:
  friend class InvariantsAfter<Counter>;
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    COHORT_CHECK(count_ <= 10, "it counts to ten");
  }

  mutable Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(InvariantsDeathTest, AreCheckedBehindEachCallInTests) {
  ASSERT_TRUE(ChecksInvariants());
  Counter counter;
  for (int i = 0; i < 10; ++i) counter.Count();
  EXPECT_DEATH(counter.Count(), "it counts to ten");
}

TEST(InvariantsDeathTest, ACheckForTestsIsMadeThere) {
  EXPECT_DEATH(COHORT_DCHECK(false, "is never so"), "is never so");
}

}  // namespace
}  // namespace cohort
