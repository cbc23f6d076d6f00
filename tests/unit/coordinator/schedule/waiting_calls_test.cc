#include "coordinator/schedule/waiting_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

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
            "1 closures queued, 1 in flight; the oldest: 1 on worker:3; worker:3 serving, 1 in "
            "flight; calls that wait: 1 Join");
}

// The worker may still be at work when the coordinator takes it for lost.
TEST_F(SchedulerTest, AnErrorIsRaisedOnlyWhenTheClosuresOfLostWorkersAreFenced) {
  Make(1);
  const auto lost = AddWorker(0);
  Schedule();
  lost->AnswerPreparations();
  lost->AnswerRun(absl::UnavailableError("connection reset"));  // closure 1 is queued again
  scheduler->RecordError(absl::InternalError("boom"));
  EXPECT_TRUE(fences.empty()) << "nobody has observed the error";
  Join();
  ASSERT_EQ(fences.size(), 1u);
  EXPECT_EQ(fences[0].first, 2u) << "every closure below is cancelled";
  Join();
  EXPECT_TRUE(joined.empty());
  EXPECT_EQ(fences.size(), 1u);
  fences[0].second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].message(), "boom");
  EXPECT_TRUE(joined[1].ok());
  scheduler->RecordError(absl::InternalError("again"));
  Join();
  EXPECT_EQ(joined.back().message(), "again");
  EXPECT_EQ(fences.size(), 1u) << "no worker was lost in between";
}

TEST_F(SchedulerTest, AFenceThatFailsHoldsNoErrorBack) {
  Make(1);
  const auto lost = AddWorker(0);
  Schedule();
  lost->AnswerPreparations();
  lost->AnswerRun(absl::UnavailableError("connection reset"));
  scheduler->RecordError(absl::InternalError("boom"));
  Join();
  ASSERT_EQ(fences.size(), 1u);
  fences[0].second(absl::UnavailableError("ps:0 was lost"));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "boom");
}

}  // namespace
}  // namespace cohort
