#include "ps_server/slice/push_gate.h"

#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "ps_server/slice/variable_slice.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr uint64_t kEpoch = 3;
constexpr uint64_t kCoordinator = 7;

PushTicket Ticket(uint64_t closure, uint64_t worker = 100, uint64_t watermark = 1) {
  return {kEpoch, closure, worker, watermark};
}
PushTicket InEpoch(uint64_t epoch, PushTicket ticket) {
  ticket.epoch = epoch;
  return ticket;
}

class PushGateTest : public testing::Test {
 protected:
  PushGateTest() { gate_.StartEpoch(kEpoch, kCoordinator); }

  // One slice of one push, as the service applies it.
  absl::StatusOr<AppliedPush> Apply(VariableSlice& shard, const PushTicket& ticket) {
    const Payload payload = {SliceOf(Tensor::Scalar<int64_t>(1))};
    PayloadCursor cursor(payload);
    return shard.Apply(cursor, {0, 1, ticket.closure_id}, [&] { return gate_.Check(ticket); });
  }
  static std::unique_ptr<VariableSlice> Counter() {
    const VariableSpec spec = {"n", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"};
    return *VariableSlice::Create((*SlicesOf(LayOut({spec}, 1)[0]))[0], HostMemory());
  }
  size_t Intervals(VariableSlice& shard, uint64_t epoch = kEpoch) {
    return *shard.Settle([&] { return gate_.Window(epoch); });
  }

  PushGate gate_;
};

TEST_F(PushGateTest, ASliceTakesAClosureOnceFromWhicheverWorkerItComes) {
  const auto one = Counter();
  const auto two = Counter();
  ASSERT_TRUE(gate_.Admit(Ticket(5, 100)).ok());
  EXPECT_FALSE(Apply(*one, Ticket(5, 100))->duplicate);
  ASSERT_TRUE(gate_.Admit(Ticket(5, 200)).ok());
  EXPECT_TRUE(Apply(*one, Ticket(5, 200))->duplicate);
  EXPECT_FALSE(Apply(*two, Ticket(5, 200))->duplicate) << "where the first attempt stopped";
  EXPECT_FALSE(Apply(*one, Ticket(6))->duplicate);
  EXPECT_EQ(Intervals(*one), 1u);
}

TEST_F(PushGateTest, TheWatermarkRefusesLatePushesAndSlicesForget) {
  const auto shard = Counter();
  ASSERT_TRUE(Apply(*shard, Ticket(3)).ok());
  ASSERT_TRUE(Apply(*shard, Ticket(5)).ok());
  EXPECT_EQ(Intervals(*shard), 2u);
  ASSERT_TRUE(gate_.Admit(Ticket(9, 100, 6)).ok());
  EXPECT_EQ(Intervals(*shard), 0u);
  const absl::Status late = gate_.Admit(Ticket(5));
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ClassOf(late), proto::STALE);
  EXPECT_EQ(ClassOf(Apply(*shard, Ticket(5)).status()), proto::STALE);
  EXPECT_TRUE(gate_.Admit(Ticket(7, 100, 2)).ok()) << "an older watermark changes nothing";
  EXPECT_FALSE(gate_.Admit(Ticket(5)).ok());
}

TEST_F(PushGateTest, AFencedWorkerIsRefusedEvenAfterItsPushWasAdmitted) {
  const auto shard = Counter();
  ASSERT_TRUE(gate_.Admit(Ticket(5, 100)).ok());
  ASSERT_TRUE(gate_.Fence({kEpoch, {100, 300}}).ok());
  EXPECT_EQ(ClassOf(Apply(*shard, Ticket(5, 100)).status()), proto::STALE);
  EXPECT_EQ(ClassOf(gate_.Admit(Ticket(6, 300))), proto::STALE);
  EXPECT_FALSE(Apply(*shard, Ticket(5, 200))->duplicate);
}

TEST_F(PushGateTest, AFenceOfClosuresRefusesThemEvenAfterTheirPushWasAdmitted) {
  const auto shard = Counter();
  ASSERT_TRUE(gate_.Admit(Ticket(5)).ok());
  ASSERT_TRUE(gate_.Fence({kEpoch, {}, 6}).ok());
  EXPECT_EQ(ClassOf(Apply(*shard, Ticket(5)).status()), proto::STALE);
  EXPECT_EQ(ClassOf(gate_.Admit(Ticket(4))), proto::STALE);
  EXPECT_TRUE(gate_.Admit(Ticket(6)).ok());
  ASSERT_TRUE(gate_.Fence({kEpoch, {}, 2}).ok());
  EXPECT_FALSE(gate_.Admit(Ticket(5)).ok()) << "the watermark only grows";
}

TEST_F(PushGateTest, AFencedWorkerDoesNotRaiseTheWatermark) {
  ASSERT_TRUE(gate_.Fence({kEpoch, {100}}).ok());
  EXPECT_FALSE(gate_.Admit(Ticket(50, 100, 50)).ok());
  EXPECT_TRUE(gate_.Admit(Ticket(5, 200)).ok());
}

TEST_F(PushGateTest, RefusesClosureZeroAndAWatermarkAboveTheClosure) {
  EXPECT_EQ(gate_.Admit(Ticket(0, 100, 0)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gate_.Admit(Ticket(5, 100, 6)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(gate_.Admit(Ticket(5, 100, 5)).ok());
}

TEST_F(PushGateTest, ANewEpochOfTheSameCoordinatorKeepsWhatSlicesKnow) {
  const auto shard = Counter();
  const auto other = Counter();
  ASSERT_TRUE(Apply(*shard, Ticket(5)).ok());
  ASSERT_TRUE(gate_.Admit(Ticket(5)).ok());
  gate_.StartEpoch(kEpoch + 1, kCoordinator);
  EXPECT_EQ(ClassOf(Apply(*other, Ticket(5)).status()), proto::STALE) << "of the old epoch";
  EXPECT_FALSE(gate_.Admit(Ticket(5)).ok());
  const PushTicket again = InEpoch(kEpoch + 1, Ticket(5));
  ASSERT_TRUE(gate_.Admit(again).ok());
  EXPECT_TRUE(Apply(*shard, again)->duplicate);
}

TEST_F(PushGateTest, WithAnotherCoordinatorSlicesAndFenceForget) {
  const auto shard = Counter();
  ASSERT_TRUE(gate_.Admit(Ticket(5, 100, 4)).ok());
  ASSERT_TRUE(Apply(*shard, Ticket(5)).ok());
  ASSERT_TRUE(gate_.Fence({kEpoch, {200}}).ok());
  gate_.StartEpoch(kEpoch + 1, kCoordinator + 1);
  const PushTicket first = InEpoch(kEpoch + 1, Ticket(1, 200));
  ASSERT_TRUE(gate_.Admit(first).ok());
  EXPECT_FALSE(Apply(*shard, first)->duplicate);
  EXPECT_EQ(Apply(*shard, InEpoch(kEpoch + 1, Ticket(5)))->version_before, 2u)
      << "the value stays, and so does its version";
}

TEST_F(PushGateTest, AnOldEpochNeitherFencesNorSetsTheWatermark) {
  gate_.StartEpoch(kEpoch + 1, kCoordinator);
  EXPECT_EQ(ClassOf(gate_.Fence({kEpoch, {100}, 50})), proto::STALE);
  EXPECT_EQ(ClassOf(gate_.RestoreWatermark(kEpoch, 50)), proto::STALE);
  EXPECT_EQ(ClassOf(gate_.Window(kEpoch).status()), proto::STALE);
  EXPECT_TRUE(gate_.Admit(InEpoch(kEpoch + 1, Ticket(5, 100))).ok());
}

TEST_F(PushGateTest, ARestoredWatermarkLetsOldIdsInAgain) {
  ASSERT_TRUE(gate_.Admit(Ticket(50, 100, 50)).ok());
  EXPECT_FALSE(gate_.Admit(Ticket(20)).ok());
  gate_.StartEpoch(kEpoch + 1, kCoordinator);
  ASSERT_TRUE(gate_.RestoreWatermark(kEpoch + 1, 20).ok());
  EXPECT_TRUE(gate_.Admit(InEpoch(kEpoch + 1, Ticket(20))).ok());
  EXPECT_FALSE(gate_.Admit(InEpoch(kEpoch + 1, Ticket(19))).ok());
}

TEST_F(PushGateTest, APushOfAnOldEpochThatWasAdmittedCannotLandAfterTheRestore) {
  const auto shard = Counter();
  ASSERT_TRUE(gate_.Admit(Ticket(5)).ok());
  gate_.StartEpoch(kEpoch + 1, kCoordinator);
  ASSERT_TRUE(gate_.RestoreWatermark(kEpoch + 1, 1).ok());
  const auto gate = [&] { return gate_.Window(kEpoch + 1); };
  ASSERT_TRUE(shard->Restore(*VariableSlice::InitialState(shard->layout()), gate).ok());
  EXPECT_EQ(ClassOf(Apply(*shard, Ticket(5)).status()), proto::STALE);
  EXPECT_EQ(shard->Read().version, 0u);
  EXPECT_FALSE(Apply(*shard, InEpoch(kEpoch + 1, Ticket(5)))->duplicate) << "it runs again";
}

TEST_F(PushGateTest, TheFenceIsBounded) {
  std::vector<uint64_t> many(kFencedIntervalsMax);
  for (size_t i = 0; i < many.size(); ++i) many[i] = 1000 + 2 * i;
  EXPECT_TRUE(gate_.Fence({kEpoch, many}).ok());
  EXPECT_TRUE(gate_.Fence({kEpoch, {1000, 1002}}).ok()) << "no more intervals than before";
  EXPECT_EQ(gate_.Fence({kEpoch, {1}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(gate_.Admit(Ticket(5, 1)).ok());
}

// Against a model that forgets nothing: a set of (closure, slice) that were applied, and the
// highest watermark.
TEST_F(PushGateTest, RandomPushesAgreeWithAModelThatForgetsNothing) {
  const uint64_t first_seed = TestSeed(1);
  for (uint64_t seed = first_seed; seed < first_seed + 50; ++seed) {
    SCOPED_TRACE(Replay(seed, "PushGateTest.Random*"));
    SequenceRng rng(seed);
    gate_.StartEpoch(kEpoch, kCoordinator + seed);
    std::vector<std::unique_ptr<VariableSlice>> shards;
    for (int i = 0; i < 4; ++i) shards.push_back(Counter());
    std::set<std::pair<uint64_t, uint32_t>> applied;
    std::set<uint64_t> fenced;
    uint64_t watermark = 0;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t closure = 1 + static_cast<uint64_t>(i) / 20 + rng.Below(12);
      const uint64_t low = closure > 14 ? closure - 14 : 1;
      const PushTicket ticket = Ticket(closure, rng.Below(40), low - rng.Below(low));
      if (rng.Below(100) == 0) {
        fenced.insert(ticket.worker_incarnation);
        ASSERT_TRUE(gate_.Fence({kEpoch, {ticket.worker_incarnation}}).ok());
      }
      const absl::Status admitted = gate_.Admit(ticket);
      if (fenced.contains(ticket.worker_incarnation) || closure < watermark) {
        ASSERT_EQ(ClassOf(admitted), proto::STALE);
        continue;
      }
      ASSERT_TRUE(admitted.ok()) << admitted;
      watermark = std::max(watermark, ticket.watermark);
      for (uint32_t s = 0; s < 4; ++s) {
        if (rng.Below(2) == 0) continue;
        const absl::StatusOr<AppliedPush> answer = Apply(*shards[s], ticket);
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(!answer->duplicate, applied.insert({closure, s}).second);
        ASSERT_LE(Intervals(*shards[s]), 14u) << "closures that can be under way";
        if (rng.Below(8) == 0) break;  // the sender died half way
      }
    }
  }
}

}  // namespace
}  // namespace cohort
