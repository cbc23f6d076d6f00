// Gang closures of several workers: sent to all or to none, and awaited from all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kEndGangs[] = "/cohort.proto.WorkerService/EndGangs";

class SchedulerGroupGangs : public SchedulerTest {
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
  void ScheduleSingle() {
    gang = false;
    const Round before = std::exchange(round, Round());
    Schedule();
    round = before;
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

TEST_F(SchedulerGroupGangs, AGangIsSentWhenAllWorkersHaveRoom) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  ScheduleGangs(1);
  EXPECT_TRUE(first->calls.empty()) << "one of two is no gang";
  const auto second = AddWorker(1);
  Prepare(*first, *second);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_THAT(Sent(*second), ElementsAre(1));
  const proto::RunClosureRequest request = RequestOf(first->calls.front());
  EXPECT_EQ(request.SerializeAsString(), RequestOf(second->calls.front()).SerializeAsString())
      << "each finds itself among the members";
  ASSERT_EQ(request.gang().members_size(), 2);
  EXPECT_EQ(request.gang().members(0).address(), "host-0");
  EXPECT_EQ(request.gang().members(1).task().index(), 1);
  first->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 0u);
  second->AnswerRun(absl::OkStatus(), true);
  EXPECT_EQ(scheduler->stats().done, 1u);
}

// A stream of single closures does not starve a gang: what is behind it waits until it was sent.
TEST_F(SchedulerGroupGangs, AGangThatWaitsKeepsTheRoomThatComes) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleSingle();
  ScheduleSingle();
  ScheduleGangs(1);
  ScheduleSingle();
  Prepare(*first, *second);
  ASSERT_THAT(Sent(*first), ElementsAre(1));
  ASSERT_THAT(Sent(*second), ElementsAre(2));
  first->AnswerRun(absl::OkStatus());
  EXPECT_TRUE(Sent(*first).empty()) << "4 may not take it";
  second->AnswerRun(absl::OkStatus());
  Prepare(*first, *second);
  EXPECT_THAT(Sent(*first), ElementsAre(3));
  EXPECT_THAT(Sent(*second), ElementsAre(3));
}

TEST_F(SchedulerGroupGangs, WhenOneMemberFailsTheOthersAreTold) {
  MakeGroup(3, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  const auto third = AddWorker(2);
  ScheduleGangs(2);
  Join();
  Prepare(*first, *second, *third);
  third->AnswerRun(absl::OkStatus(), true);
  second->AnswerRun(
      MakeError(absl::StatusCode::kInvalidArgument, "bad data", proto::APPLICATION));
  ASSERT_EQ(first->calls.size(), 2u) << "the closure, and that its generation ends";
  EXPECT_EQ(first->calls.back().method, kEndGangs);
  proto::EndGangsRequest told;
  told.ParseFromString(first->calls.back().request.header);
  EXPECT_EQ(told.message(), "bad data");
  EXPECT_EQ(told.detail().origin().index(), 1);
  EXPECT_EQ(told.gang().generation(), 1u);
  EXPECT_TRUE(third->calls.empty()) << "it has answered";
  EXPECT_TRUE(joined.empty()) << "the first one may still be at it";
  first->AnswerRun(MakeError(absl::StatusCode::kAborted, "told so", proto::TRANSIENT));
  for (auto& fence : fences) fence.second(absl::OkStatus());
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_THAT(joined[0].message(), HasSubstr("bad data")) << "the root cause, not what followed";
}

// The one that was lost is asked to attach again, and the others are not.
TEST_F(SchedulerGroupGangs, OnlyTheMemberAtFaultIsSuspected) {
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(1);
  Prepare(*first, *second);
  const uint64_t session = RequestOf(first->calls.front()).session();
  second->AnswerRun(absl::UnavailableError("connection reset"));
  first->AnswerRun(WithOrigin(
      MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST),
      Worker(1, 1)));
  EXPECT_THAT(suspects, ElementsAre(1));
  const auto again = AddWorker(1, 2);
  first->calls.pop_front();  // EndGangs
  Prepare(*first, *again);
  EXPECT_THAT(Sent(*first), ElementsAre(1));
  EXPECT_THAT(Sent(*again), ElementsAre(1));
  const proto::RunClosureRequest request = RequestOf(first->calls.front());
  EXPECT_EQ(request.gang().generation(), 2u);
  EXPECT_EQ(request.gang().members(1).task().incarnation(), 2u);
  EXPECT_NE(request.session(), session) << "what the first attempt may still push is fenced";
}

TEST_F(SchedulerGroupGangs, AMemberThatIsSilentIsNotWaitedForWhenItIsLost) {
  fences_workers = true;
  MakeGroup(2, 1);
  const auto first = AddWorker(0);
  const auto second = AddWorker(1);
  ScheduleGangs(1);
  Prepare(*first, *second);
  const uint64_t session = RequestOf(first->calls.front()).session();
  scheduler->WorkerLost(1, absl::UnavailableError("silent"));
  ASSERT_EQ(fences.size(), 1u);
  EXPECT_EQ(fences[0].first, session);
  fences[0].second(absl::OkStatus());
  EXPECT_EQ(scheduler->stats().put_back, 1u);
  const auto again = AddWorker(1, 2);
  Prepare(*again);
  first->AnswerRun(absl::OkStatus(), true);  // too late
  EXPECT_EQ(scheduler->stats().done, 0u);
}

}  // namespace
}  // namespace cohort
