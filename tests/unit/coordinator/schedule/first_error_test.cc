// What an error stops, and what it says of those that followed (CC-11).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using FirstErrorTest = SchedulerTest;

absl::Status Bad(absl::string_view text) {
  return MakeError(absl::StatusCode::kInvalidArgument, text, proto::APPLICATION);
}

TEST_F(FirstErrorTest, StopsTheQueueAtOnce) {
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  const auto queued = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(Bad("boom"));
  EXPECT_TRUE(channel->calls.empty());
  EXPECT_FALSE(queued->IsReady()) << "nobody has observed the error";
  Join();
  EXPECT_EQ(queued->result().status().code(), absl::StatusCode::kCancelled);
}

// Fetch does not observe errors, so it would wait for ever for what stays queued.
TEST_F(FirstErrorTest, DoesNotStopWhatSomebodyFetches) {
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  const auto fetched = Schedule();
  Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(Bad("boom"));
  EXPECT_TRUE(channel->calls.empty());
  scheduler->BeginFetch();
  ASSERT_EQ(channel->calls.size(), 1u);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(fetched->result().ok());
  scheduler->EndFetch();
  channel->AnswerRun(absl::OkStatus());  // it was in flight by then
  Schedule();
  EXPECT_EQ(admitted.back().message(), "boom");
}

// The rule of TensorFlow, on demand.
TEST_F(FirstErrorTest, OrLetsItGoOnUntilSomebodyObservesIt) {
  stop_at_first_error = false;
  Make(1);
  const auto channel = AddWorker(0);
  Schedule();
  const auto second = Schedule();
  const auto third = Schedule();
  channel->AnswerPreparations();
  channel->AnswerRun(Bad("boom"));
  ASSERT_EQ(channel->calls.size(), 1u);
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(second->result().ok());
  Join();  // the third is in flight and awaited
  EXPECT_TRUE(joined.empty());
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(third->result().ok());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "boom");
}

TEST_F(FirstErrorTest, NamesAllCausesEachOnceAndIsTheFirstToPrograms) {
  Make(4);
  const auto channel = AddWorker(3);
  for (int i = 0; i < 4; ++i) Schedule();
  channel->AnswerPreparations();
  for (const char* text : {"boom", "no such row", "boom", "no such row"}) {
    channel->AnswerRun(Bad(text));
  }
  scheduler->RecordError(
      MakeError(absl::StatusCode::kUnavailable, "ps:0 was lost", proto::PS_LOST));
  Join();
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].message(), "boom; after it: no such row; ps:0 was lost");
  EXPECT_EQ(joined[0].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ClassOf(joined[0]), proto::APPLICATION);
  EXPECT_EQ(DetailOf(joined[0]).origin().index(), 3);
  scheduler->RecordError(absl::InternalError("next"));
  Join();
  EXPECT_EQ(joined[1].message(), "next");
}

}  // namespace
}  // namespace cohort
