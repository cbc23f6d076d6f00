// How ends of attempts add up, and which of them make a closure fail.

#include "coordinator/schedule/attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

const absl::Status kReset = absl::UnavailableError("connection reset");

TEST(AttemptRecord, ProcessesOfTwoWorkersAreNeeded) {
  AttemptRecord record;
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    record.AddUnanswered(attempt, Worker(0, attempt), kReset);
    record.OnGivenUp(Worker(0, attempt));
  }
  EXPECT_FALSE(record.IsPoison(3, /*only_worker=*/false, 0)) << "the worker may be its own cause";
  EXPECT_TRUE(record.IsPoison(3, /*only_worker=*/true, 0));
  record.AddUnanswered(5, Worker(1, 7), kReset);
  EXPECT_FALSE(record.IsPoison(3, false, 0)) << "nobody knows yet whether it has ended";
  EXPECT_TRUE(record.IsPoison(3, false, /*ends_now=*/5));
  record.OnServing(Worker(1, 8));
  EXPECT_TRUE(record.IsPoison(3, false, 0)) << "another process serves in its place";
}

TEST(AttemptRecord, AProcessThatComesBackHasNotEnded) {
  AttemptRecord record;
  for (int worker = 0; worker < 3; ++worker) {
    record.AddUnanswered(static_cast<uint32_t>(worker) + 1, Worker(worker, 1), kReset);
    record.OnGivenUp(Worker(worker, 1));  // silent for a lease
  }
  EXPECT_TRUE(record.IsPoison(3, false, 0));
  record.OnServing(Worker(1, 1));
  EXPECT_FALSE(record.IsPoison(3, false, 0));
}

TEST(AttemptRecord, AnAttemptOfManyProcessesCountsOnce) {
  AttemptRecord record;
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    for (int worker = 0; worker < 4; ++worker) {
      record.AddUnanswered(attempt, Worker(worker, attempt), kReset);
      record.OnGivenUp(Worker(worker, attempt));
    }
  }
  EXPECT_FALSE(record.IsPoison(3, false, 0));
  EXPECT_TRUE(record.IsPoison(2, false, 0));
}

// One call may be silent for all of the time, and the next call's message may be lost too.
TEST(AttemptRecord, TwoLostMessagesOfTheSetUpEndNothing) {
  const absl::Status lost = absl::DeadlineExceededError("no answer");
  const absl::Duration most = absl::Seconds(60);
  AttemptRecord record;
  record.SetSilenceError(lost);
  absl::Time now = absl::UnixEpoch() + most;
  EXPECT_EQ(record.AddSilence(absl::UnixEpoch(), now), most);
  EXPECT_TRUE(record.Silence(most).ok());
  for (int calls = 2; calls <= 3; ++calls) {
    EXPECT_TRUE(record.Silence(most).ok()) << calls;
    now += absl::Seconds(15);
    record.AddSilence(now - absl::Seconds(15), now);
  }
  EXPECT_EQ(record.Silence(most), lost);
  record.EndSilence();
  EXPECT_TRUE(record.Silence(most).ok());
  EXPECT_EQ(record.AddSilence(now, now + absl::Seconds(1)), absl::Seconds(1)) << "counted anew";
}

class ClosureAttempts : public SchedulerTest {};

// The network may break as often as it likes.
TEST_F(ClosureAttempts, CallsThatEndWithoutAnAnswerUseNone) {
  Make(1, 100, /*attempts_max=*/3);
  const auto value = Schedule();
  for (int i = 0; i < 20; ++i) {
    const auto channel = AddWorker(i % 3, /*incarnation=*/1);
    channel->AnswerPreparations();
    ASSERT_EQ(channel->calls.size(), 1u);
    channel->AnswerRun(absl::UnavailableError("connection reset"));
  }
  EXPECT_FALSE(value->IsReady());
  const auto channel = AddWorker(0, 1);
  channel->AnswerPreparations();
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
}

TEST_F(ClosureAttempts, AWorkerThatDoesNotReachAPsUsesNone) {
  Make(1, 100, /*attempts_max=*/3);
  const auto value = Schedule();
  const auto channel = AddWorker(0);
  channel->AnswerPreparations();
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role("ps");
  const absl::Status lost = WithDetail(absl::UnavailableError("ps:0 is not reached"), detail);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(channel->calls.size(), 1u);
    channel->AnswerRun(lost);
    EXPECT_TRUE(channel->calls.empty()) << "it is given nothing for a while";
    sim.RunFor(absl::Seconds(1));
  }
  EXPECT_FALSE(value->IsReady());
  channel->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
  EXPECT_EQ(ps_suspects.size(), 20u);
}

// Three may be those of messages which were lost with their connections.
TEST_F(ClosureAttempts, FourSetUpCallsInARowWithoutAnAnswerAreAnError) {
  const absl::Status silent = absl::DeadlineExceededError("no answer");
  const auto be_silent = [&](int times, uint64_t incarnation) {
    for (int i = 0; i < times; ++i) AddWorker(0, incarnation)->AnswerRun(silent);
  };
  Make(1);
  const auto answered_between = Schedule();
  be_silent(3, 1);
  AddWorker(0)->AnswerPreparations();
  channels.back()->AnswerRun(kReset);
  be_silent(3, 2);
  AddWorker(0, /*incarnation=*/2)->AnswerPreparations();
  channels.back()->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(answered_between->result().ok());
  const auto value = Schedule();
  scheduler->WorkerLost(0, kReset);
  channels.back()->calls.clear();
  be_silent(3, 3);
  EXPECT_FALSE(value->IsReady());
  be_silent(1, 3);
  ASSERT_TRUE(value->IsReady());
  EXPECT_THAT(std::string(value->result().status().message()),
              testing::AllOf(testing::HasSubstr("chief:0's call RegisterProgram of "),
                             testing::HasSubstr("to worker:0 (incarnation 3)"),
                             testing::HasSubstr("got no answer for 1m"),
                             testing::HasSubstr("check the path MTU")));
}

// A path that loses large packets alone breaks the connection before a call runs out of its time.
TEST_F(ClosureAttempts, SetUpCallsThatBreakTheirConnectionForSoLongAreAnErrorToo) {
  Make(1);
  const auto value = Schedule();
  for (int i = 0; i < 9; ++i) {
    const auto channel = AddWorker(0);
    sim.RunFor(absl::Seconds(6));
    channel->AnswerRun(kReset);
    ASSERT_FALSE(value->IsReady()) << i;
  }
  const auto channel = AddWorker(0);
  sim.RunFor(absl::Seconds(6));
  channel->AnswerRun(kReset);
  ASSERT_TRUE(value->IsReady());
  EXPECT_THAT(std::string(value->result().status().message()),
              testing::AllOf(testing::HasSubstr("got no answer for 1m"),
                             testing::HasSubstr("check the path MTU")));
}

TEST_F(ClosureAttempts, AWorkerThatDoesNotAnswerSetUpCallsIsNotGivenTheClosureAgainAtOnce) {
  Make(1);
  const auto value = Schedule();
  const auto silent = AddWorker(0);
  const auto other = AddWorker(1);
  ASSERT_EQ(silent->calls.size(), 1u);
  silent->AnswerRun(absl::DeadlineExceededError("no answer"));
  const auto again = AddWorker(0);
  EXPECT_TRUE(again->calls.empty());
  other->AnswerPreparations();
  other->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(value->result().ok());
  Schedule();
  ASSERT_TRUE(again->calls.empty()) << "it was its turn";
  other->AnswerRun(absl::OkStatus());
  sim.RunFor(absl::Minutes(2));
  Schedule();
  EXPECT_EQ(again->calls.size(), 1u);
}

TEST_F(ClosureAttempts, ThreeUnreadableMessagesAreAnError) {
  Make(1, 100, /*attempts_max=*/10);
  const auto value = Schedule();
  const auto channel = AddWorker(0);
  channel->AnswerPreparations();
  channel->AnswerRun(MalformedMessage("half a field"));
  // What its answer says it has fetched is not in the payload.
  ScriptedChannel::OpenCall call = std::move(channel->calls.front());
  channel->calls.pop_front();
  Envelope<proto::RunClosureResponse> response;
  *response.header.add_fetches() = MetaOf(Tensor::Scalar(1.0f));
  call.done(Pack(std::move(response)));
  EXPECT_FALSE(value->IsReady());
  channel->AnswerRun(MalformedMessage("half a field"));
  ASSERT_TRUE(value->IsReady());
  EXPECT_EQ(value->result().status().message(),
            "closure 1: 3 messages about it could not be read, the last time: half a field");
}

TEST_F(ClosureAttempts, AnswersOfWorkersThatRanItCount) {
  Make(1, 100, /*attempts_max=*/3);
  const auto value = Schedule();
  const absl::Status busy = MakeError(absl::StatusCode::kUnavailable, "busy", proto::TRANSIENT);
  auto channel = AddWorker(0);
  channel->AnswerPreparations();
  channel->AnswerRun(busy);
  channel->AnswerRun(kReset);
  channel = AddWorker(0);
  channel->AnswerRun(busy);
  EXPECT_FALSE(value->IsReady());
  channel->AnswerRun(busy);
  ASSERT_TRUE(value->IsReady());
  EXPECT_EQ(value->result().status().message(), "closure 1 failed 3 times, the last time: busy");
}

}  // namespace
}  // namespace cohort
