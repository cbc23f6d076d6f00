// What a job begins with, in simulated time: the coordinator as a program says what it restores,
// what it begins anew, and what an earlier job has left on its tasks and disks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/checkpoint_files.h"
#include "tests/sim/daemon_sim.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kAdam[] = "compile.optimizer=adam";
constexpr char kMomentum[] =
    R"(compile.optimizer={"class_name": "SGD", "config": {"momentum": 0.9}})";

// A run of the coordinator, and what it has logged.
struct Said {
  CoordinatorDaemon::Result result;
  std::vector<std::string> lines;

  // The lines of one event.
  std::vector<std::string> Of(const std::string& event) const {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (absl::StrContains(line, absl::StrCat("event=", event, " "))) found.push_back(line);
    }
    return found;
  }
};

Said RunAndHear(DaemonSim& sim, const std::vector<std::string>& sets = {}) {
  testing::internal::CaptureStderr();
  Said said{sim.Run(sets), {}};
  said.lines = absl::StrSplit(testing::internal::GetCapturedStderr(), '\n');
  return said;
}

TEST(Beginning, AJobThatFindsNoCheckpointSaysThatItBeginsAnew) {
  DaemonSim sim(1, 1, 1, {"checkpoint.directory=/saved", "checkpoint.restore=latest"});
  const Said first = RunAndHear(sim);
  ASSERT_EQ(first.result.code, kExitOk) << first.result.error;
  ASSERT_THAT(first.Of("checkpoint_none"), SizeIs(1));
  EXPECT_THAT(first.Of("checkpoint_none")[0],
              AllOf(HasSubstr("level=warning"), HasSubstr("directory=/saved"),
                    HasSubstr("the training begins anew")));
  EXPECT_THAT(first.Of("checkpoint_restored"), IsEmpty());
  EXPECT_EQ(SummaryOf(first.result)["steps"], kSteps);
  const Said second = RunAndHear(sim);
  EXPECT_THAT(second.Of("checkpoint_none"), IsEmpty());
  EXPECT_THAT(second.Of("checkpoint_restored"), SizeIs(1));
}

// A loss of 0 would be that of a perfect model.
TEST(Beginning, AJobThatTrainsNothingHasNoTrainLoss) {
  DaemonSim sim(1, 1, 1,
                {"checkpoint.directory=/saved", "checkpoint.restore=latest",
                 R"(compile.metrics=["accuracy"])",
                 R"(data.test={"class_name": "SyntheticDigits", "config": {"count": 32}})"});
  const nlohmann::json trained = SummaryOf(sim.Run());
  ASSERT_TRUE(trained.contains("train_loss"));
  ASSERT_TRUE(trained.contains("train_accuracy"));
  const nlohmann::json again = SummaryOf(sim.Run());
  EXPECT_EQ(again["steps"], 0);
  for (const char* key : {"train_loss", "train_accuracy", "validation_loss"}) {
    EXPECT_FALSE(again.contains(key)) << key << ": " << again[key];
  }
  EXPECT_EQ(again["test_loss"], trained["test_loss"]) << "what is there was tested";
}

// The prefix says where the checkpoint is. A job that saves none goes on from it as one that does.
TEST(Beginning, ACheckpointIsRestoredByItsPrefixAlone) {
  DaemonSim sim(1, 1, 1, {"fit.closures_in_flight=1"});
  ASSERT_EQ(sim.Run({"checkpoint.directory=/saved", "fit.epochs=2"}).code, kExitOk);
  const auto wanted = sim.Run({"checkpoint.directory=/saved", "checkpoint.restore=latest"});
  ASSERT_EQ(wanted.code, kExitOk) << wanted.error;
  for (const char* prefix : {"/saved/ckpt-20", "/saved/ckpt-20.index"}) {
    const Said said = RunAndHear(sim, {absl::StrCat("checkpoint.restore=", prefix)});
    ASSERT_EQ(said.result.code, kExitOk) << said.result.error;
    ASSERT_THAT(said.Of("checkpoint_restored"), SizeIs(1));
    EXPECT_THAT(said.Of("checkpoint_restored")[0],
                AllOf(HasSubstr("prefix=/saved/ckpt-20 "), HasSubstr("step=20 ")));
    const nlohmann::json got = SummaryOf(said.result);
    EXPECT_EQ(got["steps"], 10);
    EXPECT_EQ(got["global_step"], kSteps);
    EXPECT_EQ(got["train_loss"], SummaryOf(wanted)["train_loss"]);
    EXPECT_EQ(got["checkpoint"], "");
  }
}

// The step is known from jobs that end behind each step: their loss is no number, which JSON has
// not.
TEST(Beginning, ALossThatIsNoNumberIsSaidOnceWithItsStep) {
  const std::vector<std::string> sets = {
      "fit.closures_in_flight=1", "recovery.enabled=false",
      R"(compile.optimizer={"class_name": "SGD", "config": {"learning_rate": 1e38}})"};
  int64_t step = 1;
  for (; step < 10; ++step) {
    DaemonSim sim(1, 1, 1, sets);
    const auto ended = sim.Run({"fit.steps_per_epoch=1", absl::StrCat("fit.epochs=", step)});
    ASSERT_EQ(ended.code, kExitOk) << ended.error;
    if (SummaryOf(ended)["train_loss"].is_null()) break;
  }
  ASSERT_GT(step, 1) << "the first loss is one";
  ASSERT_LT(step, 10);
  for (const char* type : {"parameter_server", "multi_worker_mirrored"}) {
    DaemonSim sim(1, type[0] == 'p' ? 1 : 0, 1, sets);
    const Said said = RunAndHear(sim, {absl::StrCat("strategy.type=", type)});
    ASSERT_EQ(said.result.code, kExitOk) << said.result.error;
    const std::vector<std::string> lines = said.Of("loss_not_finite");
    ASSERT_THAT(lines, SizeIs(1)) << type;
    EXPECT_THAT(lines[0], AllOf(HasSubstr("level=warning"), HasSubstr(absl::StrCat("step=", step))))
        << type;
  }
}

// A kernel and a bias, of which Adam has two slots each and SGD with momentum one.
TEST(Beginning, SlotsThatTheCheckpointLacksAreCounted) {
  const std::vector<std::string> restores = {"checkpoint.directory=/saved",
                                             "checkpoint.restore=latest"};
  DaemonSim sim(1, 1, 1, restores);
  ASSERT_EQ(sim.Run({kAdam, "fit.epochs=1"}).code, kExitOk);
  const Said same = RunAndHear(sim, {kAdam, "fit.epochs=2"});
  EXPECT_THAT(same.Of("checkpoint_slots"), IsEmpty()) << "all are there";
  const Said other = RunAndHear(sim, {kMomentum});
  ASSERT_EQ(other.result.code, kExitOk) << other.result.error;
  ASSERT_THAT(other.Of("checkpoint_slots"), SizeIs(1));
  EXPECT_THAT(other.Of("checkpoint_slots")[0],
              AllOf(HasSubstr("level=warning"), HasSubstr(" restored=0 new=2 not_taken=4")));
  EXPECT_EQ(SummaryOf(other.result)["global_step"], kSteps) << "its steps go on";
}

// As to fine-tune: the variables alone, whatever else the checkpoint has.
// A layer that was lost by mistake is noticed.
TEST(Beginning, ValuesThatTheModelHasNoVariableForAreNamed) {
  DaemonSim sim(1, 1, 1, {"checkpoint.directory=/saved", "checkpoint.restore=latest"});
  ASSERT_EQ(sim.Run({"fit.epochs=1"}).code, kExitOk);
  const Said same = RunAndHear(sim, {"fit.epochs=2"});
  ASSERT_EQ(same.result.code, kExitOk) << same.result.error;
  EXPECT_THAT(same.Of("checkpoint_values_not_taken"), IsEmpty()) << "all have one";
  const Said less = RunAndHear(sim, {"model.config.layers.0.config.use_bias=false"});
  ASSERT_EQ(less.result.code, kExitOk) << less.result.error;
  ASSERT_THAT(less.Of("checkpoint_values_not_taken"), SizeIs(1));
  EXPECT_THAT(less.Of("checkpoint_values_not_taken")[0],
              AllOf(HasSubstr("level=warning"), HasSubstr("values=1"), HasSubstr("/bias")));
}

TEST(Beginning, WeightsAloneComeWithoutStepsEpochsAndSlots) {
  DaemonSim sim(1, 1, 1, {"checkpoint.directory=/saved", kAdam, "fit.closures_in_flight=1"});
  ASSERT_EQ(sim.Run().code, kExitOk);
  DaemonSim fresh(1, 1, 1, {kAdam, "fit.closures_in_flight=1"});
  const nlohmann::json anew = SummaryOf(fresh.Run({"fit.epochs=1"}));
  const Said said = RunAndHear(
      sim, {"checkpoint.restore=latest", "checkpoint.weights_only=true", "fit.epochs=1"});
  ASSERT_EQ(said.result.code, kExitOk) << said.result.error;
  ASSERT_THAT(said.Of("checkpoint_slots"), SizeIs(1));
  EXPECT_THAT(said.Of("checkpoint_slots")[0], HasSubstr(" restored=0 new=4 not_taken=4"));
  ASSERT_THAT(said.Of("checkpoint_restored"), SizeIs(1));
  EXPECT_THAT(said.Of("checkpoint_restored")[0],
              AllOf(HasSubstr(" step=0 "), HasSubstr("weights_only=yes")));
  const nlohmann::json got = SummaryOf(said.result);
  EXPECT_EQ(got["steps"], 10) << "an epoch of its own, behind three that do not count";
  EXPECT_EQ(got["global_step"], 10);
  EXPECT_LT(got["train_loss"], anew["train_loss"]) << "from trained weights";
}

// The names of files in a directory.
std::set<std::string> NamesIn(FileSystem& files, const std::string& directory) {
  const auto listed = files.List(directory);
  EXPECT_TRUE(listed.ok()) << listed.status();
  return listed.ok() ? std::set<std::string>(listed->begin(), listed->end())
                     : std::set<std::string>();
}

// Recovery keeps and removes its own files, and nothing of those that the job and others save.
TEST(Beginning, RecoveryAndCheckpointsMayShareADirectory) {
  const std::vector<std::string> sets = {"checkpoint.directory=/saved", "checkpoint.max_to_keep=9",
                                         "fit.closures_in_flight=1", "recovery.interval_steps=3"};
  nlohmann::json wanted;
  for (const char* recovery : {"/apart", "/saved"}) {
    SCOPED_TRACE(recovery);
    DaemonSim sim(1, 1, 1, sets);
    FileSystem& files = sim.cluster().FilesOf("chief:0");
    const std::vector<std::string> shared = {absl::StrCat("recovery.directory=", recovery)};
    ASSERT_EQ(sim.Run({shared[0], "name=earlier", "fit.epochs=1"}).code, kExitOk);
    ASSERT_TRUE(WriteFileAtomically(files, "/saved/recovery.txt", "a user's own").ok());
    const std::set<std::string> before = NamesIn(files, "/saved");
    // Its process is replaced, and its server is lost.
    sim.InterruptAt(sim.sent().calls() + 15);
    ASSERT_EQ(sim.Run(shared).code, kExitInterrupted);
    SimWorld& world = sim.cluster().sim();
    sim.sent().At(sim.sent().calls() + 8, [&] {
      world.Run([&] { sim.cluster().tasks().Kill({Role::kPs, 0}); });
      world.CallAt(world.Now() + absl::Seconds(10), [&] {
        sim.cluster().tasks().Start({Role::kPs, 0});
      });
    });
    const CoordinatorDaemon::Result result = sim.Run(shared);
    ASSERT_EQ(result.code, kExitOk) << result.error;
    const nlohmann::json got = SummaryOf(result);
    EXPECT_EQ(got["steps"], kSteps);
    EXPECT_EQ(got["checkpoint"], "/saved/ckpt-30");
    if (wanted.is_null()) wanted = got;
    EXPECT_EQ(got["train_loss"], wanted["train_loss"]);
    const std::set<std::string> after = NamesIn(files, "/saved");
    for (const std::string& name : before) EXPECT_TRUE(after.contains(name)) << name;
    for (const std::string& name : after) EXPECT_FALSE(absl::StartsWith(name, "recovery-")) << name;
    EXPECT_EQ(*ReadFile(files, "/saved/recovery.txt"), "a user's own");
    for (const int step : {10, 20, 30}) {
      const auto restored = sim.Run({shared[0], "name=later", "fit.epochs=4",
                                     absl::StrCat("checkpoint.restore=/saved/ckpt-", step)});
      ASSERT_EQ(restored.code, kExitOk) << restored.error;
      EXPECT_EQ(SummaryOf(restored)["steps"], 40 - step);
    }
  }
}

struct Kept {
  const char* type;
  int ps;
  int workers;
};

class KeptTasks : public testing::TestWithParam<Kept> {};

INSTANTIATE_TEST_SUITE_P(Strategies, KeptTasks,
                         testing::Values(Kept{"parameter_server", 2, 1}, Kept{"one_device", 0, 1},
                                         Kept{"mirrored", 0, 1}, Kept{"central_storage", 0, 1},
                                         Kept{"multi_worker_mirrored", 0, 2}),
                         [](const auto& info) { return std::string(info.param.type); });

// Variables, slots, counters and data of the first job are nothing to the next one.
TEST_P(KeptTasks, GiveTheNextJobWhatFreshOnesGive) {
  const Kept& param = GetParam();
  const std::vector<std::string> sets = {absl::StrCat("strategy.type=", param.type), kAdam,
                                         "fit.closures_in_flight=1", "fit.epochs=2"};
  const std::vector<std::string> next = {"name=next", "seed=7"};
  DaemonSim fresh(1, param.ps, param.workers, sets);
  const CoordinatorDaemon::Result wanted = fresh.Run(next);
  ASSERT_EQ(wanted.code, kExitOk) << wanted.error;
  for (const bool interrupted : {false, true}) {
    SCOPED_TRACE(interrupted);
    DaemonSim sim(1, param.ps, param.workers, sets);
    // A job without recovery that is interrupted leaves nothing to go on from.
    if (interrupted) sim.InterruptAt(7);
    const CoordinatorDaemon::Result first =
        sim.Run(interrupted ? std::vector<std::string>{"recovery.enabled=false"}
                            : std::vector<std::string>());
    ASSERT_EQ(first.code, interrupted ? kExitJobFailed : kExitOk) << first.error;
    const CoordinatorDaemon::Result result = sim.Run(next);
    ASSERT_EQ(result.code, kExitOk) << result.error;
    for (const char* key : {"train_loss", "steps", "global_step", "ps_pushes", "ps_applied_slices",
                            "ps_duplicate_slices", "mean_staleness"}) {
      EXPECT_EQ(SummaryOf(result)[key], SummaryOf(wanted)[key]) << key;
    }
  }
}

// As under the other strategies (StepsPerEpoch): the data go on where the last epoch stopped, also
// when the job is interrupted and when a restored one goes on.
TEST(Beginning, AGroupsEpochsBelowAPassGoOnInTheData) {
  const std::vector<std::string> sets = {"strategy.type=multi_worker_mirrored",
                                         "fit.steps_per_epoch=4", "checkpoint.directory=/saved"};
  const auto expect_all = [](DaemonSim& sim, int64_t steps) {
    std::set<std::pair<int64_t, int64_t>> batches;
    for (const auto& [id, batch] : sim.sent().batches()) batches.insert(batch);
    ASSERT_EQ(batches.size(), static_cast<size_t>(steps)) << "none twice";
    EXPECT_EQ(*batches.rbegin(), std::pair((steps - 1) / 10, (steps - 1) % 10)) << "none left out";
  };
  DaemonSim whole(1, 0, 2, sets);
  const CoordinatorDaemon::Result wanted = whole.Run({"fit.epochs=6"});
  ASSERT_EQ(wanted.code, kExitOk) << wanted.error;
  EXPECT_EQ(SummaryOf(wanted)["steps"], 24);
  expect_all(whole, 24);

  DaemonSim interrupted(1, 0, 2, sets);
  interrupted.InterruptAt(27);
  ASSERT_EQ(interrupted.Run({"fit.epochs=6"}).code, kExitInterrupted);
  const CoordinatorDaemon::Result resumed = interrupted.Run({"fit.epochs=6"});
  ASSERT_EQ(resumed.code, kExitOk) << resumed.error;
  expect_all(interrupted, 24);
  EXPECT_EQ(SummaryOf(resumed)["train_loss"], SummaryOf(wanted)["train_loss"]);

  DaemonSim restored(1, 0, 2, sets);
  CoordinatorDaemon::Result last;
  for (int epochs = 1; epochs <= 6; ++epochs) {
    last = restored.Run({absl::StrCat("fit.epochs=", epochs), "checkpoint.restore=latest"});
    ASSERT_EQ(last.code, kExitOk) << last.error;
  }
  EXPECT_EQ(SummaryOf(last)["global_step"], 24);
  EXPECT_EQ(SummaryOf(last)["train_loss"], SummaryOf(wanted)["train_loss"]);
}

}  // namespace
}  // namespace cohort
