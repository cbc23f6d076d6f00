// What counts as progress of a connection. Time is moved by hand.

#include "common/wire/moved_bytes.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

class MovedBytesTest : public testing::Test {
 protected:
  MovedBytes::Time now_{std::chrono::hours(1)};
  MovedBytes moved_{[this] { return now_; }};
};

TEST_F(MovedBytesTest, ThereIsNoProgressBeforeTheFirst) {
  EXPECT_EQ(moved_.Since(), absl::InfiniteDuration());
  moved_.Add(kProgressBytes - 1);
  EXPECT_EQ(moved_.Since(), absl::InfiniteDuration());
  EXPECT_EQ(moved_.last(), MovedBytes::Time::min());
}

TEST_F(MovedBytesTest, IsTheTimeSinceEnoughBytesHadMoved) {
  moved_.Add(kProgressBytes);
  EXPECT_EQ(moved_.last(), now_);
  now_ += std::chrono::seconds(7);
  EXPECT_EQ(moved_.Since(), absl::Seconds(7));
  moved_.Add(10 * kProgressBytes);
  EXPECT_EQ(moved_.Since(), absl::ZeroDuration());
}

TEST_F(MovedBytesTest, ATrickleIsProgressOnceItsBytesSuffice) {
  moved_.Add(kProgressBytes);
  for (size_t bytes = 1; bytes < kProgressBytes; ++bytes) {
    now_ += std::chrono::milliseconds(1);
    moved_.Add(1);
  }
  EXPECT_EQ(moved_.Since(), absl::Milliseconds(kProgressBytes - 1));
  moved_.Add(1);
  EXPECT_EQ(moved_.Since(), absl::ZeroDuration());
}

TEST_F(MovedBytesTest, TheLongestTimeGrowsWithTheBytes) {
  EXPECT_EQ(LongestTime(absl::Seconds(10), 0), absl::Seconds(10));
  EXPECT_EQ(LongestTime(absl::Seconds(10), size_t{1} << 20), absl::Seconds(10 + 16));
  EXPECT_EQ(LongestTime(absl::InfiniteDuration(), 1), absl::InfiniteDuration());
}

}  // namespace
}  // namespace cohort
