#include "common/task/task_hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(2);
constexpr auto kIfFree = TaskHold::Manner::kIfFree;
constexpr auto kTakeOver = TaskHold::Manner::kTakeOver;

EpochGrant GrantFor(const std::string& job, uint64_t epoch, uint64_t incarnation,
                    uint64_t settings = 1) {
  EpochGrant grant{epoch, incarnation, {}, kLease};
  grant.job.set_name(job);
  grant.job.set_settings(settings);
  return grant;
}

class TaskHoldTest : public testing::Test {
 protected:
  absl::Status Check(const EpochGrant& wanted, TaskHold::Manner manner = kIfFree) {
    return hold.Check(wanted, manner, now);
  }
  absl::Time now = absl::FromUnixSeconds(1000);
  TaskHold hold{EpochGrant(), now};
};

TEST_F(TaskHoldTest, TheSameJobTakesOverFromItselfAtOnce) {
  EXPECT_TRUE(Check(GrantFor("a", 1, 10)).ok()) << "nobody holds it";
  hold.Grant(GrantFor("a", 1, 10), now);
  EXPECT_TRUE(Check(GrantFor("a", 1, 10)).ok()) << "the holder asks again";
  EXPECT_TRUE(Check(GrantFor("a", 2, 11)).ok());
  hold.Grant(GrantFor("a", 2, 11), now);
  for (const uint64_t epoch : {1, 2}) {
    const absl::Status late = Check(GrantFor("a", epoch, 10));
    EXPECT_EQ(ClassOf(late), proto::STALE) << late;
    EXPECT_THAT(std::string(late.message()),
                HasSubstr("epoch 2 is held by coordinator incarnation 11 of job 'a'"));
  }
}

TEST_F(TaskHoldTest, AnotherJobWaitsForALeaseOfSilence) {
  hold.Grant(GrantFor("a", 1, 10), now);
  for (const EpochGrant& other : {GrantFor("b", 2, 11), GrantFor("a", 2, 11, /*settings=*/2)}) {
    const absl::Status refused = Check(other);
    EXPECT_EQ(ClassOf(refused), proto::CONFIGURATION) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("job 'a'"));
  }
  now += kLease - absl::Milliseconds(1);
  EXPECT_FALSE(Check(GrantFor("b", 2, 11)).ok());
  hold.Hear(now);
  now += absl::Milliseconds(1);
  EXPECT_FALSE(Check(GrantFor("b", 2, 11)).ok()) << "it was heard of again";
  now += kLease;
  EXPECT_EQ(hold.Kept(now), absl::ZeroDuration());
  EXPECT_TRUE(Check(GrantFor("b", 2, 11)).ok());
  hold.Grant(GrantFor("b", 2, 11), now);
  // Whom it was taken from must hear that, not that it has to wait.
  EXPECT_EQ(ClassOf(Check(GrantFor("a", 1, 10))), proto::STALE);
}

TEST_F(TaskHoldTest, ARefusalNamesThePlaceOfTheHolderSafely) {
  EpochGrant grant = GrantFor("a", 1, 10);
  grant.place = absl::StrCat("process 12 on host h\n", std::string(kPlaceBytesMax, 'x'));
  hold.Grant(grant, now);
  const std::string refused(Check(GrantFor("b", 2, 11)).message());
  EXPECT_THAT(refused, HasSubstr("of job 'a', process 12 on host h\\nxxx"));
  EXPECT_LT(refused.size(), 2 * kPlaceBytesMax);
}

TEST_F(TaskHoldTest, OfTwoJobsThatClaimOneEpochTheLaterOneWaits) {
  hold.Grant(GrantFor("a", 1, 10), now);
  EXPECT_EQ(ClassOf(Check(GrantFor("b", 1, 11))), proto::CONFIGURATION);
}

TEST_F(TaskHoldTest, AnotherJobTakesOverWhenItIsToldTo) {
  hold.Grant(GrantFor("a", 1, 10), now);
  EXPECT_TRUE(Check(GrantFor("b", 2, 11), kTakeOver).ok());
  EXPECT_EQ(ClassOf(Check(GrantFor("b", 1, 11), kTakeOver)), proto::STALE);
}

TEST_F(TaskHoldTest, WhatIsReleasedIsFreeUntilItIsGrantedAnew) {
  hold.Grant(GrantFor("a", 1, 10), now);
  hold.Release();
  hold.Hear(now);
  hold.Grant(GrantFor("a", 1, 10), now);  // a late repetition
  EXPECT_EQ(hold.Kept(now), absl::ZeroDuration());
  EXPECT_TRUE(Check(GrantFor("b", 2, 11)).ok());
  hold.Grant(GrantFor("b", 2, 11), now);
  EXPECT_EQ(hold.Kept(now), kLease);
}

TEST_F(TaskHoldTest, WhoHeldItBeforeARestartHasALeaseToComeBack) {
  TaskHold restarted(GrantFor("a", 3, 10), now);
  EXPECT_FALSE(restarted.Check(GrantFor("b", 4, 11), kIfFree, now).ok());
  EXPECT_TRUE(restarted.Check(GrantFor("b", 4, 11), kIfFree, now + kLease).ok());
}

}  // namespace
}  // namespace cohort
