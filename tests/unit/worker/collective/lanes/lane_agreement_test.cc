// Calls that all ranks agree on, and nothing moves; and who is told of a group's end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int kSize = 5;

// Simulated ranks that agree on one call after another.
class AgreeingRanks {
 public:
  AgreeingRanks() : world_(std::make_shared<SimLaneWorld>(1, kSize)), ranks_(world_, Spec()) {}

  void Agree(int rank, const CollectiveCall& call) {
    ends_.resize(kSize);
    ranks_.Lane(rank).Agree(call, [this, rank](absl::Status status) {
      ends_[static_cast<size_t>(rank)].push_back(std::move(status));
    });
  }
  void Rest() { world_->Rest(); }
  // Of the rank's calls so far, in the order of their ends.
  const std::vector<absl::Status>& EndsOf(int rank) { return ends_[static_cast<size_t>(rank)]; }
  LaneCommunicator& Lane(int rank) { return ranks_.Lane(rank); }

 private:
  static LaneGroupSpec Spec() {
    LaneGroupSpec spec;
    spec.size = kSize;
    return spec;
  }
  const std::shared_ptr<SimLaneWorld> world_;  // shared with the ranks
  LaneRanks ranks_;
  std::vector<std::vector<absl::Status>> ends_;
};

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduce,
                                 CollectiveOp::kBroadcast, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllGather, CollectiveOp::kAllToAll,
                                 CollectiveOp::kBarrier};

TEST(LaneAgreement, IsThereWhenTheLastRankHasStartedTheCallAndMovesNothing) {
  for (const CollectiveOp op : kOps) {
    AgreeingRanks ranks;
    CollectiveCall call;
    call.op = op;
    call.count = op == CollectiveOp::kBarrier ? 0 : 1000;
    std::vector<CollectiveCall> calls = WithParts(kSize, call, 1000);
    std::vector<Bytes> inputs = RandomInputs(calls, 1);
    std::vector<Bytes> outputs;
    for (size_t r = 0; r < kSize; ++r) {
      calls[r].input = inputs[r];
      outputs.emplace_back(4 * static_cast<size_t>(OutputElements(calls[r], static_cast<int>(r))),
                           std::byte{0x77});
      calls[r].output = absl::MakeSpan(outputs.back());
    }
    const std::vector<Bytes> before = outputs;
    for (int rank = 1; rank < kSize; ++rank) ranks.Agree(rank, calls[static_cast<size_t>(rank)]);
    ranks.Rest();
    for (int rank = 0; rank < kSize; ++rank) EXPECT_EQ(ranks.EndsOf(rank).size(), 0u);
    ranks.Agree(0, calls[0]);
    ranks.Rest();
    for (int rank = 0; rank < kSize; ++rank) {
      ASSERT_EQ(ranks.EndsOf(rank).size(), 1u) << DescribeCall(calls[0]);
      EXPECT_TRUE(ranks.EndsOf(rank)[0].ok()) << ranks.EndsOf(rank)[0];
      EXPECT_EQ(ranks.Lane(rank).counters().bytes_sent, 0u);
    }
    EXPECT_EQ(outputs, before);
    EXPECT_EQ(ranks.Lane(2).recorder()->LastDone(), absl::StrCat("call 0, ", OpName(op)));
  }
}

// Of every rank in turn; nobody goes on.
TEST(LaneAgreement, IsNeverThereWhereOneCallDiffers) {
  for (int odd = 0; odd < kSize; ++odd) {
    AgreeingRanks ranks;
    CollectiveCall call;
    CollectiveCall other;
    other.name = "another";
    for (int rank = 0; rank < kSize; ++rank) ranks.Agree(rank, rank == odd ? other : call);
    ranks.Rest();
    for (int rank = 0; rank < kSize; ++rank) {
      ASSERT_EQ(ranks.EndsOf(rank).size(), 1u);
      EXPECT_EQ(ranks.EndsOf(rank)[0], ranks.EndsOf(0)[0]);
      EXPECT_EQ(ranks.EndsOf(rank)[0].code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(ranks.EndsOf(rank)[0].message()), HasSubstr("barrier 'another'"));
    }
  }
}

// Ranks 1 and 4 alone know how much goes from one to the other, and no round of a barrier is
// between them.
TEST(LaneAgreement, CountsOfAnAllToAllAreComparedInPairs) {
  AgreeingRanks ranks;
  CollectiveCall call;
  call.op = CollectiveOp::kAllToAll;
  call.counts.assign(kSize, 0);
  call.receive_counts.assign(kSize, 0);
  const Bytes sent(4);
  for (int rank = 0; rank < kSize; ++rank) {
    CollectiveCall own = call;
    if (rank == 1) {
      own.counts[4] = 1;
      own.input = sent;
    }
    ranks.Agree(rank, own);
  }
  ranks.Rest();
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(ranks.EndsOf(rank).size(), 1u);
    EXPECT_EQ(ranks.EndsOf(rank)[0].code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(LaneAgreement, RanksThatRestAreToldOfTheEndOnce) {
  AgreeingRanks ranks;
  std::vector<absl::Status> told;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.Lane(rank).WhenAborted([&told](absl::Status cause) { told.push_back(std::move(cause)); });
  }
  ranks.Rest();
  EXPECT_EQ(told.size(), 0u);
  ranks.Lane(3).Abort(absl::UnavailableError("worker:7 was lost"));
  ranks.Lane(1).Abort(absl::UnavailableError("worker:7 was lost"));
  ranks.Rest();
  ASSERT_EQ(told.size(), static_cast<size_t>(kSize));
  for (const absl::Status& cause : told) {
    EXPECT_EQ(cause, told[0]);
    EXPECT_THAT(std::string(cause.message()), HasSubstr("worker:7 was lost"));
  }
  ranks.Lane(0).WhenAborted([&told](absl::Status cause) { told.push_back(std::move(cause)); });
  ranks.Rest();
  ASSERT_EQ(told.size(), static_cast<size_t>(kSize) + 1) << "also who asks when it has ended";
  EXPECT_EQ(told.back(), told[0]);
}

}  // namespace
}  // namespace cohort
