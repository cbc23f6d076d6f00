// Members of gangs that leave, come, and are brought back in step, at whatever moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SchedulerGangMembers : public SchedulerTest {
 protected:
  void MakeGroup(int size) {
    gang_size = size;
    gang = true;
    Make(/*in_flight=*/2);
  }
  void ScheduleGang() {
    ++round.number;
    Schedule();
  }
  // The closures that the worker has been sent, and how many workers run each with it.
  static std::vector<std::pair<uint64_t, int>> Sent(
      std::initializer_list<std::shared_ptr<ScriptedChannel>> all, ScriptedChannel& channel) {
    for (int i = 0; i < 3; ++i) {
      for (const auto& other : all) other->AnswerPreparations();
    }
    std::vector<std::pair<uint64_t, int>> sent;
    for (const auto& call : channel.calls) {
      if (call.method != ScriptedChannel::kRun) continue;
      proto::RunClosureRequest request;
      request.ParseFromString(call.request.header);
      sent.emplace_back(request.closure_id(), request.gang().members_size());
    }
    return sent;
  }
  using Gangs = std::vector<std::pair<uint64_t, int>>;
};

// A worker may be lost between the two steps by which its copy brings it home.
TEST_F(SchedulerGangMembers, OneThatWasLostBeforeItIsInStepIsNot) {
  for (const uint64_t incarnation : {uint64_t{0}, uint64_t{2}}) {
    round = Round();
    out_of_step.clear();
    MakeGroup(2);
    const auto first = AddWorker(0);
    AddWorker(1);
    scheduler->WorkerLost(1, absl::UnavailableError("gone"));
    AddWorker(1, 2);
    scheduler->WorkerLost(1, absl::UnavailableError("gone again"));
    scheduler->InStep(1, incarnation);
    EXPECT_THAT(out_of_step, ElementsAre(1, 1)) << "its home is dropped again";
    ScheduleGang();
    EXPECT_EQ(Sent({first}, *first), (Gangs{{1, 1}}));
  }
}

// Nobody knows what it would have said: it may have made the step.
TEST_F(SchedulerGangMembers, OneWhoseAnswerCannotBeReadIsOutOfStep) {
  MakeGroup(2);
  const auto first = AddWorker(0), second = AddWorker(1);
  ScheduleGang();
  ASSERT_EQ(Sent({first, second}, *second), (Gangs{{1, 2}}));
  second->AnswerRun(MalformedMessage("half a field"));
  first->AnswerRun(MakeError(absl::StatusCode::kAborted, "ended", proto::TRANSIENT));
  EXPECT_THAT(out_of_step, ElementsAre(1));
}

// Another process has no copy.
TEST_F(SchedulerGangMembers, AProcessThatCameSinceIsNotInStep) {
  MakeGroup(2);
  const auto first = AddWorker(0);
  AddWorker(1);
  scheduler->WorkerLost(1, absl::UnavailableError("gone"));
  AddWorker(1, 2);
  const auto third = AddWorker(1, 3);
  scheduler->InStep(1, 2);
  ScheduleGang();
  EXPECT_EQ(Sent({first, third}, *first), (Gangs{{1, 1}}));
  scheduler->InStep(1, 3);
  ScheduleGang();
  EXPECT_THAT(Sent({first, third}, *third), IsEmpty()) << "the generation before is under way";
  first->AnswerRun(absl::OkStatus());
  EXPECT_EQ(Sent({first, third}, *third), (Gangs{{2, 2}}));
}

TEST_F(SchedulerGangMembers, TheOthersRunOnWhenOneIsRemoved) {
  MakeGroup(3);
  const auto first = AddWorker(0), second = AddWorker(1), third = AddWorker(2);
  ScheduleGang();
  ScheduleGang();
  ASSERT_EQ(Sent({first, second, third}, *third), (Gangs{{1, 3}, {2, 3}}));
  int drained = 0;
  scheduler->RemoveWorker(2, [&] { ++drained; });
  ScheduleGang();
  EXPECT_EQ(Sent({first, second, third}, *third), (Gangs{{1, 3}, {2, 3}})) << "they end there";
  for (int gang = 0; gang < 2; ++gang) {
    EXPECT_EQ(drained, 0);
    for (const auto& worker : {first, second, third}) worker->AnswerRun(absl::OkStatus());
  }
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(Sent({first, second, third}, *first), (Gangs{{3, 2}}));
  EXPECT_EQ(scheduler->stats().put_back, 0u);
  EXPECT_THAT(out_of_step, IsEmpty());
  scheduler->RemoveWorker(2, [&] { ++drained; });  // once more
  EXPECT_EQ(drained, 2);
}

TEST_F(SchedulerGangMembers, OneThatIsAwayCanBeRemoved) {
  MakeGroup(2);
  const auto first = AddWorker(0);
  AddWorker(1);
  scheduler->WorkerLost(1, absl::UnavailableError("gone"));
  int drained = 0;
  scheduler->RemoveWorker(1, [&] { ++drained; });
  EXPECT_EQ(drained, 1);
  ScheduleGang();
  EXPECT_EQ(Sent({first}, *first), (Gangs{{1, 1}}));
}

// Also where all copies are put back meanwhile: its own may not have been among them.
TEST_F(SchedulerGangMembers, OneThatIsAddedWaitsForItsFirstCopy) {
  redo_max = 100;
  MakeGroup(2);
  const auto first = AddWorker(0), second = AddWorker(1);
  scheduler->RemoveWorker(1, [] {});
  scheduler->JoinGangs(5);
  const auto added = AddWorker(5);
  ScheduleGang();
  EXPECT_EQ(Sent({first, added}, *first), (Gangs{{1, 1}}));
  scheduler->Pause("all were lost");
  scheduler->Resume(8);
  const auto again = AddWorker(0, 2), added_again = AddWorker(5, 2);
  EXPECT_EQ(Sent({again, added_again}, *again), (Gangs{{1, 1}}));
  again->AnswerRun(absl::OkStatus());
  scheduler->InStep(5, 2);
  ScheduleGang();
  EXPECT_EQ(Sent({again, added_again}, *added_again), (Gangs{{2, 2}}));
}

TEST_F(SchedulerGangMembers, OneThatWasRemovedIsNotBroughtInStep) {
  MakeGroup(2);
  const auto first = AddWorker(0);
  AddWorker(1);
  scheduler->WorkerLost(1, absl::UnavailableError("gone"));
  AddWorker(1, 2);
  scheduler->RemoveWorker(1, [] {});
  scheduler->InStep(1, 2);
  ScheduleGang();
  EXPECT_EQ(Sent({first}, *first), (Gangs{{1, 1}}));
}

}  // namespace
}  // namespace cohort
