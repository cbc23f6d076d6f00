#include "ps_server/apply_log.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr uint64_t kEpoch = 3;

PushTicket Ticket(uint64_t closure, uint64_t worker = 100, uint64_t watermark = 1) {
  return {kEpoch, closure, worker, watermark};
}

class ApplyLogTest : public testing::Test {
 protected:
  ApplyLogTest() { log_.StartEpoch(kEpoch, 7); }
  ApplyLog log_{8};
};

TEST_F(ApplyLogTest, AppliesEachSliceOncePerClosure) {
  ASSERT_TRUE(log_.Admit(Ticket(5), {4, 2}).ok());
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5), 2), Claim::kApply);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5), 2), Claim::kDuplicate);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5), 4), Claim::kApply);
  ASSERT_TRUE(log_.Admit(Ticket(6), {2}).ok());
  EXPECT_EQ(*log_.ClaimSlice(Ticket(6), 2), Claim::kApply);
}

TEST_F(ApplyLogTest, AnotherAttemptFromAnotherWorkerGoesOnWhereTheFirstStopped) {
  ASSERT_TRUE(log_.Admit(Ticket(5, 100), {1, 2}).ok());
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5, 100), 1), Claim::kApply);
  ASSERT_TRUE(log_.Admit(Ticket(5, 200), {2, 1, 3}).ok());
  EXPECT_EQ(log_.size(), 3u);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5, 200), 1), Claim::kDuplicate);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5, 200), 2), Claim::kApply);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5, 200), 3), Claim::kApply);
}

TEST_F(ApplyLogTest, TheWatermarkDropsRecordsAndRefusesLatePushes) {
  ASSERT_TRUE(log_.Admit(Ticket(5), {1, 2}).ok());
  ASSERT_TRUE(log_.Admit(Ticket(6), {1}).ok());
  ASSERT_TRUE(log_.Admit(Ticket(9, 100, 6), {1}).ok());
  EXPECT_EQ(log_.size(), 2u);
  const absl::Status late = log_.Admit(Ticket(5), {1, 2});
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ClassOf(late), proto::STALE);
  EXPECT_EQ(log_.ClaimSlice(Ticket(5), 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(log_.Admit(Ticket(7, 100, 2), {1}).ok()) << "an older watermark changes nothing";
  EXPECT_FALSE(log_.Admit(Ticket(5), {1}).ok());
}

TEST_F(ApplyLogTest, AFencedWorkerIsRefusedEvenBetweenAdmitAndClaim) {
  ASSERT_TRUE(log_.Admit(Ticket(5, 100), {1}).ok());
  ASSERT_TRUE(log_.Fence({100, 300}).ok());
  EXPECT_EQ(ClassOf(log_.ClaimSlice(Ticket(5, 100), 1).status()), proto::STALE);
  EXPECT_EQ(ClassOf(log_.Admit(Ticket(6, 300), {1})), proto::STALE);
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5, 200), 1), Claim::kApply);
}

TEST_F(ApplyLogTest, AFenceOfClosuresRefusesThemEvenBetweenAdmitAndClaim) {
  ASSERT_TRUE(log_.Admit(Ticket(5), {1}).ok());
  ASSERT_TRUE(log_.Fence({}, /*watermark=*/6).ok());
  EXPECT_EQ(ClassOf(log_.ClaimSlice(Ticket(5), 1).status()), proto::STALE);
  EXPECT_EQ(ClassOf(log_.Admit(Ticket(4), {1})), proto::STALE);
  EXPECT_TRUE(log_.Admit(Ticket(6), {1}).ok());
  ASSERT_TRUE(log_.Fence({}, /*watermark=*/2).ok());
  EXPECT_FALSE(log_.Admit(Ticket(5), {1}).ok()) << "the watermark only grows";
}

TEST_F(ApplyLogTest, AFencedWorkerDoesNotRaiseTheWatermark) {
  ASSERT_TRUE(log_.Fence({100}).ok());
  EXPECT_FALSE(log_.Admit(Ticket(50, 100, 50), {1}).ok());
  EXPECT_TRUE(log_.Admit(Ticket(5, 200), {1}).ok());
}

TEST_F(ApplyLogTest, RefusesClosureZeroAndAWatermarkAboveTheClosure) {
  EXPECT_EQ(log_.Admit(Ticket(0, 100, 0), {1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log_.Admit(Ticket(5, 100, 6), {1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(log_.Admit(Ticket(5, 100, 5), {1}).ok());
}

TEST_F(ApplyLogTest, AFullLogRefusesAndARisenWatermarkMakesRoom) {
  ASSERT_TRUE(log_.Admit(Ticket(1), {1, 2, 3, 4, 5}).ok());
  const absl::Status full = log_.Admit(Ticket(2), {1, 2, 3, 4});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ClassOf(full), proto::TRANSIENT);
  EXPECT_EQ(log_.size(), 5u);
  EXPECT_TRUE(log_.Admit(Ticket(1), {5, 4, 3, 2, 1}).ok()) << "a repeat needs no room";
  EXPECT_TRUE(log_.Admit(Ticket(2), {1, 2, 3}).ok());
  EXPECT_TRUE(log_.Admit(Ticket(3, 100, 2), {1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(log_.size(), 8u);
}

TEST_F(ApplyLogTest, ANewEpochOfTheSameCoordinatorKeepsTheRecords) {
  ASSERT_TRUE(log_.Admit(Ticket(5), {1, 2}).ok());
  EXPECT_EQ(*log_.ClaimSlice(Ticket(5), 1), Claim::kApply);
  log_.StartEpoch(kEpoch + 1, 7);
  EXPECT_EQ(ClassOf(log_.ClaimSlice(Ticket(5), 2).status()), proto::STALE) << "of the old epoch";
  EXPECT_FALSE(log_.Admit(Ticket(5), {1}).ok());
  PushTicket again = Ticket(5);
  again.epoch = kEpoch + 1;
  ASSERT_TRUE(log_.Admit(again, {1}).ok());
  EXPECT_EQ(*log_.ClaimSlice(again, 1), Claim::kDuplicate);
}

TEST_F(ApplyLogTest, AnotherCoordinatorStartsWithAnEmptyLogAndAnEmptyFence) {
  ASSERT_TRUE(log_.Admit(Ticket(5, 100, 4), {1}).ok());
  ASSERT_TRUE(log_.Fence({200}).ok());
  log_.StartEpoch(kEpoch + 1, 8);
  EXPECT_EQ(log_.size(), 0u);
  PushTicket first = Ticket(1, 200);
  first.epoch = kEpoch + 1;
  ASSERT_TRUE(log_.Admit(first, {1}).ok());
  EXPECT_EQ(*log_.ClaimSlice(first, 1), Claim::kApply);
}

TEST_F(ApplyLogTest, TheFenceIsBounded) {
  std::vector<uint64_t> many(kFencedMax);
  for (size_t i = 0; i < many.size(); ++i) many[i] = 1000 + i;
  EXPECT_TRUE(log_.Fence(many).ok());
  EXPECT_TRUE(log_.Fence({1000}).ok());
  EXPECT_EQ(log_.Fence({1}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(log_.Admit(Ticket(5, 1), {1}).ok());
}

// Against a model that forgets nothing: a set of (closure, slice) that were applied, and the
// highest watermark.
TEST(ApplyLogModel, RandomPushesAgreeWithAModelThatForgetsNothing) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 50; ++seed) {
    SCOPED_TRACE(Replay(seed, "ApplyLogModel.*"));
    SequenceRng rng(seed);
    ApplyLog log(64);
    log.StartEpoch(kEpoch, 7);
    std::set<std::pair<uint64_t, uint32_t>> applied;
    std::set<uint64_t> fenced;
    uint64_t watermark = 0;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t closure = 1 + static_cast<uint64_t>(i) / 20 + rng.Below(12);
      const uint64_t low = closure > 14 ? closure - 14 : 1;
      const PushTicket ticket = Ticket(closure, rng.Below(40), low - rng.Below(low));
      if (rng.Below(100) == 0) {
        fenced.insert(ticket.worker_incarnation);
        ASSERT_TRUE(log.Fence({ticket.worker_incarnation}).ok());
      }
      std::vector<uint32_t> slices;
      for (uint32_t s = 0; s < 4; ++s) {
        if (rng.Below(2) == 0) slices.push_back(s);
      }
      const absl::Status admitted = log.Admit(ticket, slices);
      ASSERT_LE(log.size(), 64u);
      const bool stale = fenced.contains(ticket.worker_incarnation) || closure < watermark;
      if (stale) {
        ASSERT_EQ(ClassOf(admitted), proto::STALE);
        continue;
      }
      watermark = std::max(watermark, ticket.watermark);
      if (!admitted.ok()) {
        ASSERT_EQ(admitted.code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      for (const uint32_t s : slices) {
        const absl::StatusOr<Claim> claim = log.ClaimSlice(ticket, s);
        ASSERT_TRUE(claim.ok());
        ASSERT_EQ(*claim == Claim::kApply, applied.insert({closure, s}).second);
        if (rng.Below(8) == 0) break;  // the sender died half way
      }
    }
  }
}

}  // namespace
}  // namespace cohort
