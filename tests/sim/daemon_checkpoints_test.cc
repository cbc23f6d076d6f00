// The checkpoints that the coordinator as a program saves and restores, in simulated time: each
// step once, whenever the job is stopped, and with what the summary says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "tests/sim/daemon_sim.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// 18 steps of training and 2 of validation are done, and the last checkpoint is saved.
TEST(LastCheckpoint, IsNamedByAJobThatIsInterruptedBehindIt) {
  DaemonSim sim(1, 1, 1, kEvaluations);
  sim.InterruptAt(22);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-18");
  EXPECT_EQ(SummaryOf(result)["global_step"], 18);
}

// A process that is killed saves nothing at its end: its successor knows what the last recovery
// checkpoint knows.
TEST(LastCheckpoint, IsNotSavedAgainByTheSuccessorOfAKilledProcess) {
  DaemonSim sim(1, 1, 1, kEvaluations);
  FileSystem& files = sim.cluster().FilesOf("chief:0");
  sim.sent().At(24, [&] {
    sim.disk().Fail(FileCall::Kind::kCreate, kRecovery);
    sim.cluster().sim().Run([&] { sim.Interrupt(); });
  });
  ASSERT_EQ(sim.Run().code, kExitJobFailed);
  sim.disk().Fail(FileCall::Kind::kCreate, "/nothing");
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-18");
  EXPECT_FALSE(files.Open("/saved/ckpt-18-2.index").ok());
}

// The recovery checkpoint of a process that is stopped with the last closure of an epoch may be
// older than the checkpoint of the epoch, which the process still saves.
TEST(LastCheckpoint, IsSavedOnceByAJobThatIsInterruptedAtTheEndOfAnEpoch) {
  for (const int at : {10, 20, 30}) {
    SCOPED_TRACE(testing::Message() << "interrupted at call " << at);
    DaemonSim sim(1, 1, 1, {"checkpoint.directory=/saved", "checkpoint.max_to_keep=10"});
    FileSystem& files = sim.cluster().FilesOf("chief:0");
    sim.InterruptAt(at);
    ASSERT_EQ(sim.Run().code, kExitInterrupted);
    ASSERT_TRUE(files.Open(absl::StrCat("/saved/ckpt-", at, ".index")).ok()) << "behind its cut";
    const CoordinatorDaemon::Result result = sim.Run();
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-30");
    const absl::StatusOr<std::vector<std::string>> saved = files.List("/saved");
    ASSERT_TRUE(saved.ok()) << saved.status();
    for (const std::string& name : *saved) EXPECT_THAT(name, testing::Not(HasSubstr("-2.")));
  }
}

// A file of another job, or of an earlier run of this one, has other values.
TEST(LastCheckpoint, OfAnotherRunIsNotTakenForThatOfTheJob) {
  const std::vector<std::string> sets = {"checkpoint.directory=/saved", "fit.epochs=1"};
  DaemonSim sim(1, 1, 1, sets);
  ASSERT_EQ(sim.Run().code, kExitOk);
  sim.InterruptAt(sim.sent().calls() + 10);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-10-2");
  EXPECT_FALSE(sim.cluster().FilesOf("chief:0").Open("/saved/ckpt-10-3.index").ok());
}

TEST(LastCheckpoint, ThatWasRemovedIsNamedByNoJobAndSavedAgain) {
  DaemonSim sim(1, 1, 1, kEvaluations);
  FileSystem& files = sim.cluster().FilesOf("chief:0");
  sim.InterruptAt(22);
  ASSERT_EQ(sim.Run().code, kExitInterrupted);
  ASSERT_TRUE(files.Remove("/saved/ckpt-18.index").ok());
  const CoordinatorDaemon::Result result = sim.Run();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-18");
  EXPECT_TRUE(files.Open("/saved/ckpt-18.index").ok());
}

// A job with epochs of ten steps, which is stopped and then asked for fewer epochs.
struct Lowered {
  int first_epochs;  // what the job was first asked for
  int at;            // closures that are sent when it is stopped
  int epochs;        // what the next process is asked for
  int steps;         // what is trained when it is stopped: two epochs and some steps
};

class LoweredEpochs : public testing::TestWithParam<Lowered> {};

INSTANTIATE_TEST_SUITE_P(All, LoweredEpochs,
                         testing::Values(Lowered{2, 22, 1, 20}, Lowered{3, 25, 2, 25},
                                         Lowered{3, 25, 1, 25}));

// The job ends with the model that it has, and says so.
TEST_P(LoweredEpochs, EndTheJobWithTheModelThatItHas) {
  const Lowered& param = GetParam();
  const std::vector<std::string> sets = {
      "checkpoint.directory=/saved", "fit.closures_in_flight=1",
      R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 160}})"};
  DaemonSim sim(1, 1, 1, sets);
  sim.InterruptAt(param.at);
  ASSERT_EQ(sim.Run({absl::StrCat("fit.epochs=", param.first_epochs)}).code, kExitInterrupted);
  testing::internal::CaptureStderr();
  const std::string epochs = absl::StrCat("fit.epochs=", param.epochs);
  sim.InterruptAt(sim.sent().calls() + 2);  // in the test
  ASSERT_EQ(sim.Run({epochs}).code, kExitInterrupted);
  const CoordinatorDaemon::Result result = sim.Run({epochs});
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_THAT(said, HasSubstr("event=epochs_exceeded"));
  EXPECT_THAT(said, HasSubstr("epochs_done=2 "));
  EXPECT_EQ(SummaryOf(result)["epochs"], 2);
  EXPECT_EQ(SummaryOf(result)["steps"], param.steps);
  EXPECT_EQ(SummaryOf(result)["test_examples"], 160);
  EXPECT_EQ(SummaryOf(result)["checkpoint"], absl::StrCat("/saved/ckpt-", param.steps));
  EXPECT_EQ(sim.sent().calls(), param.steps + 5) << "nothing is trained again";
}

// A step that was still open when the job was stopped, although later ones were done, is trained
// before the job ends. So a later process trains on behind the data that was read.
TEST(EpochsThatAreRaisedAgain, ReadEveryBatchOnce) {
  DaemonSim sim(1, 1, 2, {R"(data.test={"class_name": "SyntheticDigits",
                             "config": {"seed": 2, "count": 320}})"});
  sim.sent().Delay(23, absl::Hours(1));
  sim.InterruptAt(26);
  ASSERT_EQ(sim.Run({"fit.epochs=3"}).code, kExitInterrupted);
  const auto steps = static_cast<int>(sim.sent().by_id().size());
  ASSERT_GE(steps, 25);
  sim.InterruptAt(sim.sent().calls() + 4);  // in the test
  ASSERT_EQ(sim.Run({"fit.epochs=2"}).code, kExitInterrupted);
  const CoordinatorDaemon::Result result = sim.Run({"fit.epochs=3"});
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], steps + 10);
  std::set<std::pair<int64_t, int64_t>> batches;
  for (const auto& [id, batch] : sim.sent().batches()) batches.insert(batch);
  EXPECT_EQ(sim.sent().batches().size(), static_cast<size_t>(steps + 10));
  EXPECT_EQ(batches.size(), sim.sent().batches().size()) << "none twice";
  EXPECT_EQ(*batches.rbegin(), std::pair((int64_t{steps} + 9) / 10, (int64_t{steps} + 9) % 10))
      << "none left out";
}

// Steps and epochs that a checkpoint brought never count as the job's, however often it is
// interrupted.
TEST(RestoredJob, CountsTheStepsAndEpochsThatItTrainsItself) {
  const std::vector<std::string> sets = {"checkpoint.directory=/saved", "checkpoint.restore=latest",
                                         "fit.closures_in_flight=1"};
  for (const bool interrupted : {false, true}) {
    SCOPED_TRACE(interrupted);
    DaemonSim sim(1, 1, 1, sets);
    ASSERT_EQ(sim.Run({"fit.epochs=2"}).code, kExitOk);
    CoordinatorDaemon::Result result;
    if (interrupted) {
      sim.InterruptAt(sim.sent().calls() + 4);
      ASSERT_EQ(sim.Run().code, kExitInterrupted);
    }
    result = sim.Run();
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(SummaryOf(result)["epochs"], 1);
    EXPECT_EQ(SummaryOf(result)["steps"], 10);
    EXPECT_EQ(SummaryOf(result)["global_step"], 30);
    EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-30");
    // Nothing is left to train, and nothing is saved again.
    result = sim.Run();
    EXPECT_EQ(SummaryOf(result)["epochs"], 0);
    EXPECT_EQ(SummaryOf(result)["steps"], 0);
    EXPECT_EQ(SummaryOf(result)["checkpoint"], "/saved/ckpt-30");
    EXPECT_FALSE(sim.cluster().FilesOf("chief:0").Open("/saved/ckpt-30-2.index").ok());
  }
}

// A server that is lost gets initial values while there is no recovery checkpoint.
TEST(RestoredJob, TrainsOnFromItsCheckpointThoughAServerIsLostBeforeThatIsDurable) {
  const std::vector<std::string> sets = {"checkpoint.directory=/saved", "fit.closures_in_flight=1"};
  nlohmann::json wanted;
  for (const bool lost : {false, true}) {
    DaemonSim sim(1, 1, 1, sets);
    ASSERT_EQ(sim.Run({"fit.epochs=2"}).code, kExitOk);
    SimWorld& world = sim.cluster().sim();
    if (lost) {
      sim.sent().AtText("/recovery/recovery-", [&] {
        world.Run([&] { sim.cluster().tasks().Kill({Role::kPs, 0}); });
        world.CallAt(world.Now() + absl::Seconds(10), [&] {
          sim.cluster().tasks().Start({Role::kPs, 0});
        });
      });
    }
    const CoordinatorDaemon::Result result = sim.Run({"checkpoint.restore=latest"});
    ASSERT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(SummaryOf(result)["global_step"], kSteps);
    if (!lost) wanted = SummaryOf(result)["train_loss"];
    EXPECT_EQ(SummaryOf(result)["train_loss"], wanted) << lost;
  }
}

// Nothing is lost, and nothing is there to go on from: variables without the progress of their
// checkpoint, or none of its values, would be a training that begins anew unnoticed.
TEST(RestoredJob, BeginsFromItsCheckpointAgainWhenItIsInterruptedWhileItRestores) {
  const std::vector<std::string> sets = {"checkpoint.directory=/saved"};
  DaemonSim sim(1, 1, 1, sets);
  ASSERT_EQ(sim.Run({"fit.epochs=2"}).code, kExitOk);
  sim.sent().AtText("/saved/ckpt-20", [&] { sim.cluster().sim().Run([&] { sim.Interrupt(); }); });
  const CoordinatorDaemon::Result interrupted = sim.Run({"checkpoint.restore=latest"});
  EXPECT_EQ(interrupted.error, "error: the job was interrupted by SIGTERM\n");
  const CoordinatorDaemon::Result result = sim.Run({"checkpoint.restore=latest"});
  ASSERT_EQ(result.code, kExitOk) << result.error;
  EXPECT_EQ(SummaryOf(result)["steps"], 10);
  EXPECT_EQ(SummaryOf(result)["global_step"], 30);
}

// Any byte of a checkpoint may change on its disk, those of the counters too.
TEST(RestoredJob, RefusesAChangedByteOfACheckpointAndNamesTheIntactOnes) {
  DaemonSim sim(1, 1, 1,
                {"checkpoint.directory=/saved", "checkpoint.restore=latest", "fit.epochs=2",
                 "recovery.enabled=false"});
  ASSERT_EQ(sim.Run().code, kExitOk);
  FileSystem& files = sim.cluster().FilesOf("chief:0");
  const absl::StatusOr<std::vector<std::string>> names = files.List("/saved");
  ASSERT_TRUE(names.ok()) << names.status();
  const nlohmann::json intact = SummaryOf(sim.Run());
  int refused = 0;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, "ckpt-20.")) continue;
    const std::string path = JoinPath("/saved", name);
    const std::string whole = *ReadFile(files, path);
    for (size_t at = 0; at < whole.size(); at += at + 300 < whole.size() ? 499 : 7) {
      SCOPED_TRACE(testing::Message() << path << " at " << at << " of " << whole.size());
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ 1);
      ASSERT_TRUE(WriteFileAtomically(files, path, other).ok());
      const CoordinatorDaemon::Result result = sim.Run();
      if (result.code == kExitOk) {
        // The job does not read what a checkpoint says of loads.
        EXPECT_EQ(SummaryOf(result)["steps"], intact["steps"]);
        continue;
      }
      EXPECT_THAT(result.error, HasSubstr("/saved/ckpt-20"));
      EXPECT_THAT(result.error, HasSubstr("intact checkpoints in /saved: ckpt-10;"));
      ++refused;
    }
    ASSERT_TRUE(WriteFileAtomically(files, path, whole).ok());
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace cohort
