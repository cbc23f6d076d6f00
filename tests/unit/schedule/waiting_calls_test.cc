#include "coordinator/schedule/waiting_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

TEST_F(SchedulerTest, AJoinThatGaveUpHoldsNobodyBack) {
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  const WaitId wait = Join();
  Schedule();
  ASSERT_EQ(admitted.size(), 1u) << "the Join is a cut";
  EXPECT_TRUE(scheduler->Abandon(wait));
  EXPECT_EQ(admitted.size(), 2u);
  EXPECT_FALSE(scheduler->Abandon(wait));
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(joined.empty());
}

TEST_F(SchedulerTest, AScheduleThatGaveUpIsNeverAdmitted) {
  Make(1, /*bound=*/1);
  const auto channel = AddWorker(0);
  Schedule();
  WaitId wait;
  const auto value = Schedule(&wait);
  EXPECT_TRUE(scheduler->Abandon(wait));
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_EQ(admitted.size(), 1u);
  EXPECT_TRUE(channel->calls.empty());
  EXPECT_FALSE(value->IsReady());
}

TEST_F(SchedulerTest, AnErrorWhoseObserverGaveUpIsKeptForTheNext) {
  Make(2);
  const auto channel = AddWorker(0);
  Schedule();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(absl::InternalError("boom"));
  const WaitId wait = Join();
  EXPECT_TRUE(scheduler->Abandon(wait)) << "a closure is still in flight";
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(joined.empty());
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "boom");
}

TEST_F(SchedulerTest, AWaitSaysWhatItWaitsFor) {
  Make(1);
  EXPECT_THAT(scheduler->DescribeWait(), HasSubstr("no worker has been there"));
  AddWorker(3);
  Schedule();
  Schedule();
  Join();
  EXPECT_EQ(scheduler->DescribeWait(),
            "1 closures queued, 1 in flight, the oldest: 1 on worker:3; worker:3 serving, 1 in "
            "flight; calls that wait: 1 Join");
}

}  // namespace
}  // namespace cohort
