// When frames are answered, in calls of a group.

#include <gtest/gtest.h>

#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

struct Answered {
  int sent = 0;
  int sent_that_may_wait = 0;
  int answers = 0;
};

// Belongs to the world's thread.
class CountedLanes final : public PassingLinks {
 public:
  CountedLanes(std::unique_ptr<PeerLinks> links, Answered& counts)
      : PassingLinks(std::move(links)), counts_(counts) {}

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    ++counts_.sent;
    if (frame.answer_may_wait) ++counts_.sent_that_may_wait;
    PassingLinks::Send(to, std::move(frame),
                       [this, consumed = std::move(consumed)](absl::Status status) mutable {
                         EXPECT_TRUE(status.ok()) << status;
                         ++counts_.answers;
                         consumed(std::move(status));
                       });
  }

 private:
  Answered& counts_;
};

// Two ranks, and what the first one sends. Belongs to the thread of the test.
class LaneAnswers : public testing::Test {
 protected:
  LaneAnswers() {
    LaneGroupSpec spec;
    spec.size = 2;
    spec.wrap = [this](int rank, std::unique_ptr<PeerLinks> links) -> std::unique_ptr<PeerLinks> {
      if (rank != 0) return links;
      return std::make_unique<CountedLanes>(std::move(links), of_first_);
    };
    ranks_ = std::make_unique<LaneRanks>(world_, spec);
  }
  // A ring of two: each rank sends two frames.
  static CollectiveCall Sum() {
    CollectiveCall call;
    call.op = CollectiveOp::kAllReduce;
    call.count = 100;
    call.algorithm = CollectiveAlgorithm::kRing;
    return call;
  }
  void Run(const CollectiveCall& call) {
    ExpectRight(*ranks_, CallsOf(2, call), 1, Place::kApart, "call");
    world_->Rest();
  }

  Answered of_first_;
  const std::shared_ptr<SimLaneWorld> world_ = std::make_shared<SimLaneWorld>(7, 2);
  std::unique_ptr<LaneRanks> ranks_;
};

TEST_F(LaneAnswers, ComeFourAtATimeAndTheRestWhenTheReceiverLeaves) {
  Run(Sum());
  EXPECT_EQ(of_first_.sent, 2);
  EXPECT_EQ(of_first_.answers, 0);
  Run(Sum());
  EXPECT_EQ(of_first_.answers, 4);
  Run(Sum());
  EXPECT_EQ(of_first_.answers, 4);
  ranks_->Leave(1);
  world_->Rest();
  EXPECT_EQ(of_first_.answers, 6);
}

TEST_F(LaneAnswers, OfABroadcastComeAtOnce) {
  Run(Sum());
  CollectiveCall broadcast;
  broadcast.op = CollectiveOp::kBroadcast;
  broadcast.count = 100;
  Run(broadcast);
  EXPECT_EQ(of_first_.sent, 3);
  EXPECT_EQ(of_first_.answers, 3);
}

TEST_F(LaneAnswers, AreWaitedForWhenManyCallsHaveNotRetired) {
  constexpr int kCalls = 40;
  std::vector<std::unique_ptr<GroupRun>> runs;
  const auto calls = CallsOf(2, Sum());
  for (int i = 0; i < kCalls; ++i) {
    runs.push_back(
        std::make_unique<GroupRun>(*ranks_, calls, RandomInputs(calls, 3), Place::kApart, i));
    runs.back()->Start(0);
  }
  world_->world().RunFor(absl::Seconds(1));
  EXPECT_EQ(of_first_.sent, kCalls);
  EXPECT_EQ(of_first_.sent_that_may_wait, kLaneOperationsMax / 2);
  for (const auto& run : runs) run->Start(1);
  for (const auto& run : runs) EXPECT_TRUE(run->Wait());
  ranks_->Leave(1);
  world_->Rest();
  EXPECT_EQ(of_first_.answers, of_first_.sent);
}

}  // namespace
}  // namespace cohort
