// The coordinator as a program, in simulated time: what it does at its planned ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "coordinator/daemon/coordinator_daemon.h"
#include "proto/worker.pb.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_files.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 30;  // three epochs of ten
constexpr char kRecovery[] = "/recovery";
constexpr char kRoundsOfThree[] = R"({"class_name": "Synchronous", "config": {"aggregate": 3}})";

// 320 examples in batches of 32.
constexpr char kJob[] = R"({
  "name": "small", "seed": 1,
  "model": {"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "Dense",
     "config": {"units": 10, "activation": "softmax", "input_shape": [784]}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 320}},
           "pipeline": [{"class_name": "Flatten", "config": {"component": "x"}},
                        {"class_name": "Rescaling",
                         "config": {"component": "x", "scale": 0.0039}}]},
  "fit": {"epochs": 3, "batch_size": 32},
  "recovery": {"directory": "/recovery", "interval_ms": 3600000},
  "strategy": {"type": "parameter_server"}
})";

// A disk on which calls fail from the moment on that a test says.
class FailingFiles final : public FileWatcher {
 public:
  explicit FailingFiles(FileSystem& disk) : files_(disk, *this, "chief:0") {}

  FileSystem& files() { return files_; }
  void Fail(FileCall::Kind kind, std::string beginning) {
    kind_ = kind;
    beginning_ = std::move(beginning);
  }

  absl::Status OnFileCall(const std::string&, const FileCall& call, size_t*) override {
    if (call.kind != kind_ || !absl::StartsWith(call.path, beginning_)) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat(call.path, ": Read-only file system"));
  }
  void OnFileDone(const std::string&, const FileCall&) override {}

 private:
  SimFiles files_;
  std::optional<FileCall::Kind> kind_;
  std::string beginning_;
};

// Counts how often each closure is sent to a worker, and does something at one of the calls.
class SentClosures final : public SimWatcher {
 public:
  void At(int call, std::function<void()> then) {
    at_ = call;
    then_ = std::move(then);
  }
  int calls() const { return calls_; }
  const std::map<uint64_t, int>& by_id() const { return by_id_; }
  // How often one worker was sent the same closure, at most.
  int by_one_worker() const {
    int most = 0;
    for (const auto& [sent, times] : by_worker_) most = std::max(most, times);
    return most;
  }

  SimFate OnRequest(const SimMessage& message) override {
    proto::RunClosureRequest request;
    if (!absl::EndsWith(message.method, "/RunClosure") ||
        !request.ParseFromString(message.request)) {
      return {};
    }
    ++by_id_[request.closure_id()];
    ++by_worker_[{request.closure_id(), message.to}];
    if (++calls_ == at_ && then_) then_();
    return {};
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  int calls_ = 0;
  int at_ = -1;
  std::function<void()> then_;
  std::map<uint64_t, int> by_id_;
  std::map<std::pair<uint64_t, std::string>, int> by_worker_;
};

class DaemonSim {
 public:
  DaemonSim(uint64_t seed, int ps, int workers, std::vector<std::string> sets)
      : cluster_(seed, ps, workers), sets_(std::move(sets)) {
    cluster_.network().SetWatcher(&sent_);
  }
  ~DaemonSim() { cluster_.End(); }

  // A new process of the coordinator, from its start to its end, with further settings.
  CoordinatorDaemon::Result Run(const std::vector<std::string>& sets = {}) {
    std::vector<std::string> all = sets_;
    all.insert(all.end(), sets.begin(), sets.end());
    const absl::StatusOr<JobSpec> job = ParseJob(kJob, "job.json", all);
    EXPECT_TRUE(job.ok()) << job.status();
    CoordinatorOptions options;
    options.job = *job;
    options.cluster = cluster_.tasks().spec();
    options.keep_tasks = true;
    const World world = cluster_.WorldOf("chief:0");
    CoordinatorDaemon daemon({world.clock, world.executor, disk_.files(), world.transport},
                             cluster_.waiter(), std::move(options), {});
    running_ = &daemon;
    const CoordinatorDaemon::Result result = daemon.Run();
    running_ = nullptr;
    return result;
  }
  // As SIGTERM does.
  void Interrupt() {
    if (running_ != nullptr) running_->Interrupt("SIGTERM");
  }
  void InterruptAt(int call) {
    sent_.At(call, [this] { cluster_.sim().Run([this] { Interrupt(); }); });
  }

  SimCluster& cluster() { return cluster_; }
  FailingFiles& disk() { return disk_; }
  SentClosures& sent() { return sent_; }

 private:
  SentClosures sent_;
  SimCluster cluster_;
  FailingFiles disk_{cluster_.WorldOf("chief:0").files};
  const std::vector<std::string> sets_;
  CoordinatorDaemon* running_ = nullptr;
};

nlohmann::json SummaryOf(const CoordinatorDaemon::Result& result) {
  return nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
}

TEST(Daemon, ADirectoryThatCannotBeWrittenToIsSaidBeforeAnythingStarts) {
  DaemonSim sim(1, 1, 1, {});
  sim.disk().Fail(FileCall::Kind::kCreate, kRecovery);
  const CoordinatorDaemon::Result result = sim.Run();
  EXPECT_EQ(result.code, kExitJobFailed);
  EXPECT_THAT(result.error, HasSubstr("/recovery cannot be written to"));
  EXPECT_THAT(result.error, HasSubstr("recovery.directory"));
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
  EXPECT_EQ(refused.code, kExitJobFailed);
  EXPECT_THAT(refused.error, HasSubstr("model.config.layers.0.config.units was 10 and is 12; "));
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

// 9 steps of training and one of validation in each of two epochs, then 5 of the final test.
const std::vector<std::string> kEvaluations = {
    "fit.epochs=2", "fit.validation_split=0.1", "checkpoint.directory=/saved",
    "fit.closures_in_flight=1",
    R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 160}})"};

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

// Any byte of a checkpoint may change on its disk, those of the counters too.
TEST(Daemon, AChangedByteOfACheckpointIsRefusedAndTheIntactOnesAreNamed) {
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
