// What a process that is about to leave asks of the scheduler, with workers that the test plays.

#include <gtest/gtest.h>

#include "coordinator/schedule/scheduler.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using Ids = std::vector<uint64_t>;

class SchedulerDrain : public SchedulerTest {
 protected:
  void SetUp() override {
    redo_max = 100;
    Make(2);
  }

  static Ids IdsOf(const ScriptedChannel& channel) {
    Ids ids;
    for (const auto& call : channel.calls) {
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      ids.push_back(request.closure_id());
    }
    return ids;
  }
};

// What is in flight ends, and is in the cut that is taken then; nothing else begins.
TEST_F(SchedulerDrain, ADrainLetsWhatIsInFlightEndAndNothingBegin) {
  const auto channel = AddWorker(0);
  for (int i = 0; i < 5; ++i) Schedule();
  channel->AnswerPreparations();
  int drained = 0;
  scheduler->Drain([&](const absl::Status& status) { drained += status.ok() ? 1 : 100; });
  EXPECT_EQ(IdsOf(*channel), (Ids{1, 2}));
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(drained, 0);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(drained, 1);
  EXPECT_TRUE(channel->calls.empty());
  const Cut cut = scheduler->BeginCut();
  EXPECT_EQ(cut.covered.size(), 2u);
  EXPECT_EQ(cut.open.size(), 3u);
  Schedule();
  EXPECT_TRUE(channel->calls.empty());
  scheduler->EndDrain();
  EXPECT_EQ(IdsOf(*channel), (Ids{3, 4}));
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(IdsOf(*channel), (Ids{4, 5}));
  EXPECT_EQ(drained, 1);
}

TEST_F(SchedulerDrain, ADrainOfAnIdleSchedulerIsOver) {
  int drained = 0;
  scheduler->Drain([&](const absl::Status&) { ++drained; });
  EXPECT_EQ(drained, 1);
}

}  // namespace
}  // namespace cohort
