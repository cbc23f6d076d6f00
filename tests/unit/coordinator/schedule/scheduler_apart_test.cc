// Workers that do nothing because tasks do not reach each other: nobody is to blame, and nothing
// is used up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;

constexpr char kEndGangs[] = "/cohort.proto.WorkerService/EndGangs";

class SchedulerApart : public SchedulerTest {
 protected:
  void MakeGroup(int size, int in_flight = 2) {
    gang_size = size;
    Make(in_flight);
  }
  void ScheduleGangs(int count) {
    gang = true;
    for (int i = 0; i < count; ++i) {
      ++round.number;
      Schedule();
    }
  }
  static proto::RunClosureRequest RequestOf(const ScriptedChannel::OpenCall& call) {
    proto::RunClosureRequest request;
    request.ParseFromString(call.request.header);
    return request;
  }
  // The closures that the worker has been sent.
  static std::vector<uint64_t> Sent(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    std::vector<uint64_t> sent;
    for (const auto& call : channel.calls) {
      if (call.method == ScriptedChannel::kRun) sent.push_back(RequestOf(call).closure_id());
    }
    return sent;
  }
  // Registrations go to all, and the closures behind them when all have answered.
  template <typename... Channels>
  static void Prepare(Channels&... channels) {
    for (int round = 0; round < 3; ++round) (channels.AnswerPreparations(), ...);
  }
};

TEST_F(SchedulerApart, AnIdleWorkerTakesNothingAndTheOthersAreNotSlowed) {
  Make(1);
  const auto cut_off = AddWorker(0);
  const auto other = AddWorker(1);
  scheduler->SetApart({.idle = {0}, .left_out = {}});
  for (int i = 0; i < 3; ++i) Schedule();
  EXPECT_TRUE(cut_off->calls.empty());
  for (int i = 0; i < 2; ++i) {
    other->AnswerPreparations();
    other->AnswerRun(absl::OkStatus());
  }
  EXPECT_EQ(scheduler->stats().done, 2u);
  EXPECT_TRUE(cut_off->calls.empty());
  Schedule();
  scheduler->SetApart({});
  EXPECT_FALSE(cut_off->calls.empty());
  EXPECT_TRUE(suspects.empty());
}

// The coordinator reaches both of two that do not reach each other.
TEST_F(SchedulerApart, WhoIsLeftOutIsOutOfStepAndNotSuspected) {
  MakeGroup(3, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  const auto third = AddWorker(2);
  ScheduleGangs(1);
  Prepare(*first, *second, *third);
  scheduler->SetApart({.idle = {}, .left_out = {2}});
  EXPECT_THAT(out_of_step, ElementsAre(2));
  const absl::Status cause =
      MakeError(absl::StatusCode::kUnavailable, "worker:2 is left out", proto::WORKER_LOST);
  for (const auto& member : {first, second}) {
    EXPECT_EQ(member->calls.back().method, kEndGangs) << "it waits for the third";
    member->AnswerRun(WithOrigin(cause, Worker(2, 1)));
  }
  EXPECT_TRUE(suspects.empty());
  EXPECT_THAT(Sent(*first).back(), 1);
  EXPECT_EQ(RequestOf(first->calls.back()).gang().members_size(), 2);
}

// Another member says that it is lost. Whoever watches it would know.
TEST_F(SchedulerApart, WhomAnotherMemberDoesNotReachIsNotSuspected) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(1);
  Prepare(*first, *second);
  const absl::Status lost =
      MakeError(absl::StatusCode::kUnavailable, "worker:1 is lost", proto::WORKER_LOST);
  first->AnswerRun(WithOrigin(lost, Worker(1, 1)));
  second->AnswerRun(WithOrigin(lost, Worker(1, 1)));
  EXPECT_TRUE(suspects.empty());
  EXPECT_TRUE(out_of_step.empty());
  EXPECT_THAT(Sent(*first), ElementsAre(1)) << "once more, to both";
  EXPECT_THAT(Sent(*second), ElementsAre(1));
}

// Without either of them the group would be too small: nothing is sent, and nothing is used up.
TEST_F(SchedulerApart, AGroupOfWhichNobodyCanBeLeftOutWaits) {
  gang_min = 2;
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  scheduler->SetApart({.idle = {0, 1}, .left_out = {}});
  ScheduleGangs(1);
  EXPECT_TRUE(first->calls.empty());
  scheduler->SetApart({});
  Prepare(*first, *second);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
}

}  // namespace
}  // namespace cohort
