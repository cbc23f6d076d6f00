// The coordinator as a program, in simulated time: what it does at its planned ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/sim/daemon_sim.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kRoundsOfThree[] = R"({"class_name": "Synchronous", "config": {"aggregate": 3}})";

TEST(Daemon, ADirectoryThatCannotBeWrittenToIsSaidBeforeAnythingStarts) {
  DaemonSim sim(1, 1, 1, {});
  sim.disk().Fail(FileCall::Kind::kCreate, kRecovery);
  const CoordinatorDaemon::Result result = sim.Run();
  EXPECT_EQ(result.code, kExitBadConfig);
  EXPECT_THAT(result.error,
              HasSubstr("error: job.json: recovery.directory: /recovery cannot be written to"));
  EXPECT_EQ(sim.sent().calls(), 0);
}

TEST(Daemon, WhatWasTrainedIsNotLostForACleanUpThatFails) {
  DaemonSim sim(1, 1, 1, {"recovery.interval_steps=5"});
  // The probe and the first checkpoint are there; then nothing can be removed.
  sim.sent().At(20, [&] { sim.disk().Fail(FileCall::Kind::kRemove, kRecovery); });
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result result = sim.Run();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], kSteps) << result.output;
  EXPECT_THAT(said, HasSubstr("event=recovery_not_removed"));
}

// The values in the checkpoint have other shapes, and what the user changed is named before these.
TEST(Daemon, AModelThatChangedSinceTheRecoveryCheckpointIsNamedByItsKey) {
  DaemonSim sim(1, 1, 1, {});
  sim.InterruptAt(8);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  const CoordinatorDaemon::Result refused = sim.Run({"model.config.layers.0.config.units=12"});
  EXPECT_EQ(refused.code, kExitBadConfig);
  EXPECT_THAT(refused.error, HasSubstr("model.config.layers.0.config.units was 10 and is 12; "));
  EXPECT_THAT(refused.error, HasSubstr("remove /recovery/recovery-*"));
  EXPECT_EQ(sim.Run().code, kExitOk) << "nothing was harmed";
}

// A recovery puts the variables back to a cut from before they became their averages.
TEST(Daemon, AveragesAreNotLostWithAServerBeforeTheyAreDurable) {
  std::vector<std::string> sets = kEvaluations;
  sets.emplace_back(R"(compile.optimizer={"class_name": "SGD",
                                          "config": {"use_ema": true, "ema_momentum": 0.9}})");
  nlohmann::json wanted;
  for (const bool lost : {false, true}) {
    DaemonSim sim(1, 1, 1, sets);
    bool was_lost = false;
    SimWorld& world = sim.cluster().sim();
    if (lost) {
      sim.sent().AtMethodBehind("HoldShard", "Assign", [&] {
        was_lost = true;
        world.Run([&] { sim.cluster().tasks().Kill({Role::kPs, 0}); });
        world.CallAt(world.Now() + absl::Seconds(10), [&] {
          sim.cluster().tasks().Start({Role::kPs, 0});
        });
      });
    }
    const CoordinatorDaemon::Result result = sim.Run();
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(was_lost, lost);
    if (!lost) wanted = SummaryOf(result)["test_loss"];
    EXPECT_EQ(SummaryOf(result)["test_loss"], wanted) << lost;
  }
}

// It is the user who has to choose, and no restart would help.
TEST(Daemon, ARecoveryDirectoryOfAnotherJobIsNamedWithBothJobs) {
  DaemonSim sim(1, 1, 1, {});
  sim.InterruptAt(8);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  const CoordinatorDaemon::Result refused = sim.Run({"name=other"});
  EXPECT_EQ(refused.code, kExitBadConfig);
  EXPECT_THAT(refused.error, HasSubstr("/recovery holds the state of job 'small', this is job "
                                       "'other': name the job 'small' to go on"));
  EXPECT_THAT(refused.error, HasSubstr("remove /recovery/recovery-*"));
  EXPECT_EQ(sim.Run().code, kExitOk) << "nothing was harmed";
}

struct Interrupted {
  const char* name;
  int ps;
  int workers;
  std::vector<std::string> sets;
};

class InterruptedDaemon : public testing::TestWithParam<Interrupted> {};

INSTANTIATE_TEST_SUITE_P(
    All, InterruptedDaemon,
    testing::Values(
        Interrupted{"parameter_server", 2, 2, {}},
        Interrupted{"rounds", 2, 2, {absl::StrCat("strategy.consistency=", kRoundsOfThree)}},
        Interrupted{"one_device", 0, 1, {"strategy.type=one_device"}},
        Interrupted{"multi_worker_mirrored", 0, 2, {"strategy.type=multi_worker_mirrored"}}),
    [](const auto& info) { return std::string(info.param.name); });

// At any moment: all that was done is kept, so no closure runs twice, and the model is the one of a
// job that nobody interrupted.
TEST_P(InterruptedDaemon, CostsNoClosureTwice) {
  const Interrupted& param = GetParam();
  for (const int at : {1, 2, 3, 8, 13, 21, 29}) {
    SCOPED_TRACE(testing::Message() << "interrupted at call " << at);
    DaemonSim sim(static_cast<uint64_t>(at), param.ps, param.workers, param.sets);
    sim.InterruptAt(at);
    const CoordinatorDaemon::Result first = sim.Run();
    EXPECT_EQ(first.code, kExitInterrupted) << first.error;
    EXPECT_THAT(first.error, HasSubstr("interrupted by SIGTERM"));
    EXPECT_THAT(first.error, HasSubstr("has all that was done"));
    const CoordinatorDaemon::Result second = sim.Run();
    ASSERT_EQ(second.code, kExitOk) << second.error;
    EXPECT_EQ(SummaryOf(second)["epochs"], 3);
    const int members = param.ps == 0 ? param.workers : 1;
    EXPECT_EQ(sim.sent().by_id().size(), static_cast<size_t>(kSteps));
    for (const auto& [id, times] : sim.sent().by_id()) EXPECT_EQ(times, members) << id;
  }
}

// A job that is stopped again and again ends, and with the results of one that nobody stopped.
TEST(Evaluation, OfAJobThatIsInterruptedAtEveryCallCostsNoClosureTwice) {
  DaemonSim undisturbed(1, 1, 1, kEvaluations);
  const CoordinatorDaemon::Result wanted = undisturbed.Run();
  ASSERT_EQ(wanted.code, kExitOk) << wanted.error;
  for (const int calls : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << calls << " calls of each process");
    DaemonSim sim(1, 1, 1, kEvaluations);
    CoordinatorDaemon::Result result;
    int processes = 0;
    do {
      sim.InterruptAt(sim.sent().calls() + calls);
      result = sim.Run();
    } while (result.code == kExitInterrupted && ++processes < 50);
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_GE(processes, 5);
    EXPECT_EQ(sim.sent().by_id().size(), 25u);
    for (const auto& [id, times] : sim.sent().by_id()) EXPECT_EQ(times, 1) << id;
    const nlohmann::json got = SummaryOf(result);
    for (const char* key :
         {"epochs", "steps", "train_loss", "validation_loss", "test_loss", "test_examples"}) {
      EXPECT_EQ(got[key], SummaryOf(wanted)[key]) << key;
    }
  }
}

// A process that is stopped behind the last step still validates and saves its epoch.
TEST(Evaluation, OfTheLastEpochIsDoneByTheNextProcessWhichSavesIt) {
  DaemonSim sim(1, 1, 1, kEvaluations);
  sim.InterruptAt(19);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-18");
}

// A job that has gone on from its recovery checkpoint takes a last one; one that has not yet, has
// lost nothing.
TEST(Daemon, AJobThatIsInterruptedWhileItGoesOnIsToldThatNothingIsLost) {
  DaemonSim sim(1, 1, 1, {});
  sim.InterruptAt(10);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  sim.cluster().tasks().Kill({Role::kPs, 0});
  SimWorld& world = sim.cluster().sim();
  world.CallAt(world.Now() + absl::Seconds(3), [&] { sim.Interrupt(); });
  const CoordinatorDaemon::Result starting = sim.Run();
  EXPECT_EQ(starting.code, kExitInterrupted);
  EXPECT_THAT(starting.error, HasSubstr("interrupted by SIGTERM while it started; its recovery "
                                        "checkpoint has all that was done: the same command goes "
                                        "on from it"));
  sim.cluster().tasks().Start({Role::kPs, 0});
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], kSteps);
}

TEST(Daemon, AJobThatIsInterruptedBeforeItHasARecoveryCheckpointIsToldNothingOfOne) {
  DaemonSim sim(1, 1, 1, {});
  sim.cluster().tasks().Kill({Role::kPs, 0});
  SimWorld& world = sim.cluster().sim();
  world.CallAt(world.Now() + absl::Seconds(3), [&] { sim.Interrupt(); });
  const CoordinatorDaemon::Result result = sim.Run();
  EXPECT_EQ(result.code, kExitJobFailed);
  EXPECT_EQ(result.error, "error: the job was interrupted by SIGTERM\n");
}

// Steps under the ids of a test that was given up would count as done in the next cut.
TEST(Evaluation, ThatIsAbandonedForMoreEpochsTakesNoStepOfThemAway) {
  for (const int at : {12, 13, 14}) {
    SCOPED_TRACE(at);
    DaemonSim sim(1, 1, 2, {"data.test=" + std::string(R"({"class_name": "SyntheticDigits",
        "config": {"seed": 2, "count": 320}})")});
    sim.InterruptAt(at);
    ASSERT_EQ(sim.Run({"fit.epochs=1"}).code, kExitInterrupted);
    const size_t before = sim.sent().by_id().size();
    sim.InterruptAt(sim.sent().calls() + 2);
    ASSERT_EQ(sim.Run({"fit.epochs=2"}).code, kExitInterrupted);
    const CoordinatorDaemon::Result result = sim.Run({"fit.epochs=2"});
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(sim.sent().by_id().size(), before + 20) << "10 of training and 10 of the test";
  }
}

struct Leaving {
  const char* name;
  std::vector<TaskId> tasks;
  int ps;
  int workers;
  std::vector<std::string> sets;
};

class TaskThatLeaves : public testing::TestWithParam<Leaving> {
 protected:
  // The tasks are asked to end at the call, as with SIGTERM, with so much time to serve on, and
  // come back as other processes when it has passed.
  CoordinatorDaemon::Result Run(
      DaemonSim& sim, int at, absl::Duration patience,
      const std::function<void()>& before = [] {}) {
    SimWorld& world = sim.cluster().sim();
    TestCluster& tasks = sim.cluster().tasks();
    sim.sent().At(at, [&, patience, before] {
      before();
      world.Run([&, patience] {
        for (const TaskId task : GetParam().tasks) tasks.StartLeaving(task, patience);
      });
      world.CallAt(world.Now() + patience + absl::Seconds(1), [&] {
        for (const TaskId task : GetParam().tasks) {
          tasks.Kill(task);
          tasks.Start(task);
        }
      });
    });
    testing::internal::CaptureStderr();
    const CoordinatorDaemon::Result result = sim.Run();
    said = testing::internal::GetCapturedStderr();
    return result;
  }

  std::string said;
};

const std::vector<std::string> kMirrored = {"strategy.type=multi_worker_mirrored"};

INSTANTIATE_TEST_SUITE_P(
    All, TaskThatLeaves,
    testing::Values(Leaving{"ps", {{Role::kPs, 0}}, 2, 2, {}},
                    Leaving{"every_ps", {{Role::kPs, 0}, {Role::kPs, 1}}, 2, 2, {}},
                    Leaving{"worker", {{Role::kWorker, 1}}, 2, 2, {}},
                    Leaving{"ps_and_worker", {{Role::kPs, 1}, {Role::kWorker, 0}}, 2, 2, {}},
                    Leaving{"home", {{Role::kWorker, 0}}, 0, 1, {"strategy.type=one_device"}},
                    Leaving{"copy", {{Role::kWorker, 1}}, 0, 2, kMirrored},
                    Leaving{
                        "every_copy", {{Role::kWorker, 0}, {Role::kWorker, 1}}, 0, 2, kMirrored}),
    [](const auto& info) { return std::string(info.param.name); });

bool HasHome(const Leaving& leaving) {
  return leaving.ps == 0 || leaving.tasks.front().role == Role::kPs;
}

TEST_P(TaskThatLeaves, CostsNoClosureTwice) {
  const Leaving& param = GetParam();
  for (const int at : {1, 2, 9, 17, 29}) {
    SCOPED_TRACE(testing::Message() << "leaves at call " << at);
    DaemonSim sim(static_cast<uint64_t>(at), param.ps, param.workers, param.sets);
    const CoordinatorDaemon::Result result = Run(sim, at, absl::Seconds(8));
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(SummaryOf(result)["steps"], kSteps);
    EXPECT_THAT(said, HasSubstr("event=task_leaves"));
    EXPECT_THAT(said, testing::Not(HasSubstr("event=not_saved_before_leave")));
    if (HasHome(param)) {
      EXPECT_THAT(said, HasSubstr("event=saved_before_leave"));
    }
    EXPECT_EQ(sim.sent().by_id().size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(sim.sent().by_one_worker(), 1);
    if (param.ps > 0) {
      EXPECT_EQ(sim.sent().calls(), kSteps);
    }
  }
}

// What comes of it is what comes of a crash, and one line says so.
TEST_P(TaskThatLeaves, BeforeItsCheckpointIsDoneLosesNothing) {
  const Leaving& param = GetParam();
  DaemonSim sim(1, param.ps, param.workers, param.sets);
  const CoordinatorDaemon::Result result = Run(sim, 9, absl::Milliseconds(1));
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], kSteps);
  if (HasHome(param)) {
    EXPECT_THAT(said, HasSubstr("event=not_saved_before_leave"));
  }
}

TEST_P(TaskThatLeaves, IsLetGoWhereNoCheckpointCanBeWritten) {
  const Leaving& param = GetParam();
  DaemonSim sim(1, param.ps, param.workers, param.sets);
  const CoordinatorDaemon::Result result =
      Run(sim, 9, absl::Seconds(8), [&] { sim.disk().Fail(FileCall::Kind::kCreate, kRecovery); });
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], kSteps);
  if (HasHome(param)) {
    EXPECT_THAT(said, HasSubstr("event=not_saved_before_leave"));
    EXPECT_THAT(said, HasSubstr("Read-only file system"));
  }
}

// On a slow link a step takes minutes: its closure is in flight when the time is over.
class InterruptedOnASlowLink : public testing::Test {
 protected:
  // Runs a job whose 12th call takes an hour, and interrupts it there, after `before`.
  CoordinatorDaemon::Result Run(
      DaemonSim& sim, const std::function<void()>& before = [] {}) {
    sim.sent().Delay(12, absl::Hours(1));
    sim.sent().At(12, [this, &sim, before] {
      before();
      sim.cluster().sim().Run([this, &sim] {
        interrupted_ = sim.cluster().sim().Now();
        sim.Interrupt();
      });
    });
    testing::internal::CaptureStderr();
    const CoordinatorDaemon::Result result = sim.Run();
    said_ = testing::internal::GetCapturedStderr();
    EXPECT_LT(sim.cluster().sim().Now() - interrupted_, CoordinatorOptions().drain_timeout);
    return result;
  }

  absl::Time interrupted_;
  std::string said_;
};

TEST_F(InterruptedOnASlowLink, TheJobSaysThatItGoesOnFromItsCheckpoint) {
  DaemonSim sim(1, 1, 1, {});
  const CoordinatorDaemon::Result stopped = Run(sim);
  EXPECT_EQ(stopped.code, kExitInterrupted) << stopped.error;
  EXPECT_THAT(stopped.error, HasSubstr("a recovery checkpoint has all that was done: the same "
                                       "command goes on from it"));
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], kSteps);
}

TEST_F(InterruptedOnASlowLink, TheJobThatCannotSaveSaysWhatTheSameCommandDoes) {
  DaemonSim sim(1, 1, 1, {});
  const CoordinatorDaemon::Result stopped =
      Run(sim, [&] { sim.disk().Fail(FileCall::Kind::kCreate, kRecovery); });
  EXPECT_EQ(stopped.code, kExitJobFailed);
  EXPECT_THAT(stopped.error,
              HasSubstr("the same command goes on from the last recovery checkpoint, "
                        "if there is one, and what was done since runs again: "));
}

TEST_F(InterruptedOnASlowLink, TheJobWithoutRecoveryEndsInTimeAndSaysWhatItWaitedFor) {
  DaemonSim sim(1, 1, 1, {"recovery.enabled=false"});
  const CoordinatorDaemon::Result stopped = Run(sim);
  EXPECT_EQ(stopped.code, kExitDrainTimeout);
  EXPECT_EQ(stopped.error, "error: the job was interrupted by SIGTERM\n");
  EXPECT_THAT(said_, HasSubstr("event=drain_timeout waits_for="));
}

TEST(Daemon, WhoIsGivenUpBehindItsCheckpointSaysThatTheJobGoesOn) {
  DaemonSim sim(1, 1, 1, {});
  sim.InterruptAt(12);
  // The process is given up as soon as its checkpoint is there, before it has left its tasks.
  CoordinatorDaemon::GivenUp given_up;
  sim.sent().AtMethodBehind("Release", "RunClosure", [&] { given_up = sim.GiveUp(); });
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  EXPECT_EQ(given_up.code, kExitInterrupted);
  EXPECT_THAT(given_up.error, HasSubstr("the same command goes on from it"));
  EXPECT_THAT(given_up.waits_for, HasSubstr("its tasks"));
}

// What a user is told of a lost server is what the job file allows.
TEST(Daemon, TheLossOfAServerWithoutRecoveryNamesWhatCanBeDone) {
  const auto error_of = [](const std::vector<std::string>& sets) {
    DaemonSim sim(1, 1, 1, {"recovery.enabled=false"});
    sim.sent().At(10, [&sim] {
      SimWorld& world = sim.cluster().sim();
      world.CallAt(world.Now(), [&sim] { sim.cluster().tasks().Kill({Role::kPs, 0}); });
    });
    const CoordinatorDaemon::Result result = sim.Run(sets);
    EXPECT_EQ(result.code, kExitLostCluster) << result.error;
    return result.error;
  };
  const std::string nothing = error_of({"recovery.directory="});
  EXPECT_THAT(nothing, HasSubstr("its variables are gone: the job begins anew when it is started "
                                 "again; set recovery.enabled=true and name a recovery.directory"));
  EXPECT_THAT(nothing, testing::Not(HasSubstr("checkpoint.restore")));
  EXPECT_THAT(error_of({"checkpoint.directory=/saved"}),
              HasSubstr("start the job again with checkpoint.restore=latest; set "
                        "recovery.enabled=true, so that it goes on by itself"));
}

// The job has no parameter server to save from: it ends at once, and says that work is lost.
TEST(Daemon, AnInterruptedJobWaitsForNoTaskThatIsAway) {
  DaemonSim sim(1, 1, 1, {});
  absl::Time interrupted;
  sim.sent().At(10, [&] {
    SimWorld& world = sim.cluster().sim();
    world.CallAt(world.Now(), [&] { sim.cluster().tasks().Kill({Role::kPs, 0}); });
    world.CallAt(world.Now() + absl::Seconds(30), [&] {
      interrupted = sim.cluster().sim().Now();
      sim.Interrupt();
    });
  });
  const CoordinatorDaemon::Result result = sim.Run();
  EXPECT_EQ(result.code, kExitJobFailed);
  EXPECT_THAT(result.error, HasSubstr("runs again"));
  EXPECT_LT(sim.cluster().sim().Now() - interrupted, absl::Seconds(1));
}

}  // namespace
}  // namespace cohort
