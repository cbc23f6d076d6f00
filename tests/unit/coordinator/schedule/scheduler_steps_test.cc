// Closures of several steps: their ids, what their calls carry, and what becomes of the steps that
// are done when another one fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SchedulerSteps : public SchedulerTest {
 protected:
  // Step i of a closure, from 0, reads element i + 10 at the rate i + 1.
  std::shared_ptr<RemoteValueState> ScheduleSteps(int steps) {
    auto value = std::make_shared<RemoteValueState>();
    auto closure = std::make_shared<Closure>();
    closure->program = program;
    closure->result = value;
    closure->step = 100;
    closure->gang = gang;
    closure->round = round;
    SplitInput split;
    auto dataset = std::make_shared<RegisteredDataset>();
    dataset->id = 77;
    split.dataset = dataset;
    split.position.set_element(10);
    closure->input = split;
    closure->learning_rate = 1;
    for (int i = 1; i < steps; ++i) {
      LaterStep& later = closure->later_steps.emplace_back();
      later.position.set_element(10 + i);
      later.learning_rate = i + 1;
    }
    scheduler->Schedule(std::move(closure),
                        [this](absl::Status status) { admitted.push_back(status); });
    return value;
  }
  static proto::RunClosureRequest FrontOf(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    return channel.Peek();
  }
  static std::vector<uint64_t> IdsAt(ScriptedChannel& channel) {
    channel.AnswerPreparations();
    std::vector<uint64_t> ids;
    for (const auto& call : channel.calls) {
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      ids.push_back(request.closure_id());
    }
    return ids;
  }
  // "element at rate" of each step.
  static std::vector<std::string> StepsOf(const proto::RunClosureRequest& request) {
    std::vector<std::string> steps = {
        absl::StrCat(request.split().position().element(), " at ", request.learning_rate())};
    for (const proto::LaterStep& later : request.later_steps()) {
      steps.push_back(absl::StrCat(later.position().element(), " at ", later.learning_rate()));
    }
    return steps;
  }
  // What so many steps fetched, and the error of the one behind them, if there is one.
  static void Answer(ScriptedChannel& channel, std::vector<float> fetched,
                     const absl::Status& error = absl::OkStatus()) {
    ScriptedChannel::OpenCall call = std::move(channel.calls.front());
    channel.calls.pop_front();
    Envelope<proto::RunClosureResponse> response;
    for (const float value : fetched) {
      const Tensor tensor = Tensor::Scalar(value);
      *response.header.add_fetches() = MetaOf(tensor);
      response.payload.push_back(SliceOf(tensor));
    }
    if (!error.ok()) {
      proto::StepFailure& failure = *response.header.mutable_failure();
      failure.set_steps_done(static_cast<uint32_t>(fetched.size()));
      failure.set_code(static_cast<int32_t>(error.code()));
      failure.set_message(std::string(error.message()));
      *failure.mutable_detail() = DetailOf(error);
    }
    call.done(Pack(std::move(response)));
  }
  static absl::Status Transient() {
    return MakeError(absl::StatusCode::kAborted, "again", proto::TRANSIENT);
  }
  static std::vector<float> ResultOf(const RemoteValueState& value) {
    std::vector<float> result;
    if (!value.IsReady() || !value.result().ok()) return result;
    for (const Tensor& tensor : *value.result()) result.push_back(*tensor.data<float>());
    return result;
  }
};

TEST_F(SchedulerSteps, AClosureHasAnIdForEachOfItsSteps) {
  Make(4);
  const auto channel = AddWorker(0);
  ScheduleSteps(3);
  const proto::RunClosureRequest request = FrontOf(*channel);
  Schedule();
  ScheduleSteps(2);
  EXPECT_EQ(scheduler->NextId(), ClosureId{7});
  EXPECT_THAT(IdsAt(*channel), ElementsAre(1, 4, 5));
  EXPECT_THAT(StepsOf(request), ElementsAre("10 at 1", "11 at 2", "12 at 3"));
  EXPECT_EQ(request.step(), 100u);
}

TEST_F(SchedulerSteps, GoesOnBehindTheStepsThatAreDone) {
  Make(2);
  const auto channel = AddWorker(0);
  const auto value = ScheduleSteps(4);
  FrontOf(*channel);
  Answer(*channel, {1, 2}, Transient());
  EXPECT_EQ(scheduler->stats().put_back, 1u);
  proto::RunClosureRequest request = FrontOf(*channel);
  EXPECT_EQ(request.closure_id(), 3u);
  EXPECT_EQ(request.step(), 102u);
  EXPECT_EQ(request.attempt(), 2u);
  EXPECT_THAT(StepsOf(request), ElementsAre("12 at 3", "13 at 4"));
  Answer(*channel, {3}, Transient());
  request = FrontOf(*channel);
  EXPECT_EQ(request.closure_id(), 4u);
  EXPECT_THAT(StepsOf(request), ElementsAre("13 at 4"));
  EXPECT_FALSE(value->IsReady());
  Answer(*channel, {4});
  EXPECT_THAT(ResultOf(*value), ElementsAre(1, 2, 3, 4));
}

// Attempts are those of the step at which it stands.
TEST_F(SchedulerSteps, AStepThatIsDoneBeginsTheCountOfFaultsAnew) {
  Make(2, 100, /*attempts_max=*/2);
  const auto channel = AddWorker(0);
  const auto value = ScheduleSteps(3);
  for (int i = 0; i < 2; ++i) {
    FrontOf(*channel);
    Answer(*channel, {1}, Transient());
    EXPECT_FALSE(value->IsReady());
  }
  FrontOf(*channel);
  channel->AnswerRun(Transient());
  ASSERT_TRUE(value->IsReady());
  EXPECT_FALSE(value->result().ok()) << "the last step has failed twice";
}

TEST_F(SchedulerSteps, BehindARestoreAllStepsRun) {
  redo_max = 10;
  Make(2);
  const auto channel = AddWorker(0);
  const auto half = ScheduleSteps(2);
  const auto whole = ScheduleSteps(2);
  FrontOf(*channel);
  Answer(*channel, {1}, Transient());
  ASSERT_THAT(IdsAt(*channel), ElementsAre(3, 2));
  Answer(*channel, {3, 4});
  scheduler->Pause("a ps is lost");
  scheduler->Resume(8);
  const auto again = AddWorker(0, 2);
  EXPECT_THAT(IdsAt(*again), ElementsAre(1, 3));
  EXPECT_EQ(FrontOf(*again).later_steps_size(), 1);
  Answer(*again, {1, 2});
  Answer(*again, {30, 40});
  EXPECT_THAT(ResultOf(*half), ElementsAre(1, 2)) << "not three";
  EXPECT_THAT(ResultOf(*whole), ElementsAre(3, 4)) << "the first result stays";
}

TEST_F(SchedulerSteps, AWatermarkIsBehindAllStepsOfWhatHasEnded) {
  Make(1);
  const auto channel = AddWorker(0);
  ScheduleSteps(5);
  Schedule();
  FrontOf(*channel);
  Answer(*channel, {1, 2, 3, 4, 5});
  EXPECT_EQ(FrontOf(*channel).watermark(), 6u);
}

TEST_F(SchedulerSteps, StalenessIsBoundedByTheLastStep) {
  steps_ahead_max = 5;
  Make(2);
  const auto channel = AddWorker(0);
  ScheduleSteps(3);
  ScheduleSteps(3);
  ScheduleSteps(8);
  EXPECT_THAT(IdsAt(*channel), ElementsAre(1, 4)) << "6 is 5 ahead of 1";
  Answer(*channel, {1, 2, 3});
  EXPECT_THAT(IdsAt(*channel), ElementsAre(4)) << "14 is too far ahead of 4";
  Answer(*channel, {1, 2, 3});
  EXPECT_THAT(IdsAt(*channel), ElementsAre(7)) << "the oldest one is never too far ahead";
}

TEST_F(SchedulerSteps, AnAnswerOfMoreStepsThanThereAreIsAnError) {
  Make(1);
  const auto channel = AddWorker(0);
  const auto value = ScheduleSteps(2);
  FrontOf(*channel);
  Answer(*channel, {1, 2}, Transient());
  ASSERT_TRUE(value->IsReady());
  EXPECT_EQ(value->result().status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SchedulerSteps, EachStepOfAGangHasItsRoundAndItsPlaceInLine) {
  gang = true;
  Make(2);
  const auto channel = AddWorker(0);
  round.number = 1;
  ScheduleSteps(3);
  round.number = 4;
  ScheduleSteps(2);
  ASSERT_THAT(IdsAt(*channel), ElementsAre(1, 4));
  proto::RunClosureRequest second;
  second.ParseFromString(channel->calls.back().request.header);
  EXPECT_EQ(second.gang().sequence(), 4u) << "behind three steps";
  EXPECT_EQ(second.round(), 4u);
  Answer(*channel, {1}, Transient());
  channel->AnswerRun(Transient());
  ASSERT_THAT(IdsAt(*channel), ElementsAre(2, 4));
  const proto::RunClosureRequest first = FrontOf(*channel);
  EXPECT_EQ(first.round(), 2u);
  EXPECT_EQ(first.gang().generation(), 2u);
  EXPECT_EQ(first.gang().sequence(), 1u);
  second.ParseFromString(channel->calls.back().request.header);
  EXPECT_EQ(second.gang().sequence(), 3u) << "behind the two that are left";
}

class SchedulerGroupSteps : public SchedulerSteps {
 protected:
  void SetUp() override {
    gang = true;
    gang_size = 3;
    gang_min = 1;
    round.number = 1;
    Make(1);
    for (int worker = 0; worker < 3; ++worker) members.push_back(AddWorker(worker));
    value = ScheduleSteps(4);
    for (int i = 0; i < 3; ++i) {
      for (const auto& member : members) member->AnswerPreparations();
    }
  }
  // Behind EndGangs, which members are told of one another's failures.
  static void DropOthers(ScriptedChannel& channel) {
    while (!channel.calls.empty() && channel.calls.front().method != ScriptedChannel::kRun) {
      channel.calls.pop_front();
    }
  }
  std::vector<std::shared_ptr<ScriptedChannel>> members;
  std::shared_ptr<RemoteValueState> value;
};

// Whoever has made fewer steps than another is out of step, as who answers nothing.
TEST_F(SchedulerGroupSteps, GoesOnWithThoseThatCameFarthest) {
  Answer(*members[0], {1}, Transient());
  Answer(*members[1], {1, 2}, Transient());
  members[2]->AnswerRun(absl::UnavailableError("gone"));
  EXPECT_THAT(out_of_step, ElementsAre(0, 2));
  for (const auto& member : members) DropOthers(*member);
  ASSERT_EQ(members[1]->calls.size(), 1u);
  const proto::RunClosureRequest request = members[1]->Peek();
  EXPECT_EQ(request.closure_id(), 3u);
  EXPECT_EQ(request.round(), 3u);
  ASSERT_EQ(request.gang().members_size(), 1);
  EXPECT_EQ(request.gang().members(0).task().index(), 1);
  Answer(*members[1], {3, 4});
  EXPECT_THAT(ResultOf(*value), ElementsAre(1, 2, 3, 4));
}

TEST_F(SchedulerGroupSteps, WhoHasMadeAllStepsIsInStepAndTheClosureIsDone) {
  Answer(*members[0], {1, 2, 3}, Transient());
  Answer(*members[1], {1, 2, 3, 4});
  Answer(*members[2], {1, 2, 3, 4});
  EXPECT_THAT(out_of_step, ElementsAre(0));
  EXPECT_EQ(scheduler->stats().done, 1u);
  EXPECT_THAT(ResultOf(*value), ElementsAre(1, 2, 3, 4));
}

// What a member did that has no variables any more nobody has.
TEST_F(SchedulerGroupSteps, StepsOfAMemberThatHasLostItsVariablesDoNotCount) {
  absl::Status lost = MakeError(absl::StatusCode::kUnavailable, "no home", proto::PS_LOST);
  proto::ErrorDetail detail = DetailOf(lost);
  *detail.mutable_origin() = Worker(0, 1);
  lost = WithDetail(lost, detail);
  Answer(*members[0], {1, 2, 3}, lost);
  Answer(*members[1], {1, 2}, Transient());
  Answer(*members[2], {1, 2}, Transient());
  EXPECT_THAT(out_of_step, ElementsAre(0));
  for (const auto& member : members) DropOthers(*member);
  sim.RunFor(absl::Seconds(1));
  ASSERT_FALSE(members[1]->calls.empty());
  EXPECT_EQ(members[1]->Peek().closure_id(), 3u);
}

TEST_F(SchedulerGroupSteps, AllThatCameAsFarGoOnTogether) {
  for (const auto& member : members) Answer(*member, {1, 2}, Transient());
  EXPECT_THAT(out_of_step, IsEmpty());
  for (const auto& member : members) DropOthers(*member);
  for (const auto& member : members) {
    ASSERT_EQ(member->calls.size(), 1u);
    EXPECT_EQ(member->Peek().closure_id(), 3u);
    EXPECT_EQ(member->Peek().gang().members_size(), 3);
  }
}

}  // namespace
}  // namespace cohort
