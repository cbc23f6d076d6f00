// Jobs that train in three workers together, as real processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/posix_file_system.h"
#include "common/cluster/exit_codes.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Each try is a process start; what has not been in so many never is.
constexpr int kTriesMax = 100;

class MultiWorkerProcess : public testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& name,
                                     const std::vector<std::string>& sets) {
    std::vector<std::string> arguments = {
        "--job",       absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"),
        "--local",     "worker=3",
        "--state_dir", temp / name};
    std::vector<std::string> all = {
        R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 2560}})",
        R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 500}})",
        "strategy.type=multi_worker_mirrored", absl::StrCat("export.onnx=", temp / name, ".onnx")};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  ProcessRun Run(const std::string& name, const std::vector<std::string>& sets) {
    return RunProcess(coordinator, Arguments(name, sets), environment, absl::Minutes(3));
  }
  std::string Model(const std::string& name) {
    return ReadFile(files, absl::StrCat(temp / name, ".onnx")).value_or("");
  }
  std::string Log(const std::string& name, int worker) {
    return ReadFile(files, JoinPath(temp / name, absl::StrCat("worker-", worker, ".log")))
        .value_or("");
  }
  void Kill(const std::string& name, int worker) { Signal(name, worker, SIGKILL); }
  void Signal(const std::string& name, int worker, int signal) {
    const auto text =
        ReadFile(files, JoinPath(temp / name, absl::StrCat("worker-", worker, ".process")));
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_EQ(kill(json::parse(*text)["pid"], signal), 0);
  }

  const std::map<std::string, std::string> environment = {{"TF_CONFIG", ""}};
  const std::string coordinator = absl::StrCat(COHORT_BIN_DIR, "/coordinator");
  const TempDirectory temp{"multi_worker"};
  PosixFileSystem files;
};

TEST_F(MultiWorkerProcess, ThreeWorkersTrainWithoutAParameterServer) {
  const ProcessRun run = Run("three", {"fit.epochs=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::Not(HasSubstr("task=ps:0")));
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 32);
  EXPECT_EQ(summary["ps_pushes"], 3 * 32) << "each step is one update of each worker's copy";
  EXPECT_EQ(summary["mean_staleness"], 0.0);
  EXPECT_EQ(summary["test_examples"], 500) << "each test example once";
  EXPECT_GT(summary["test_accuracy"], 0.2) << "it learns";
  // Whether gradients meet in shared memory or as frames changes no bit.
  std::vector<std::string> frames = Arguments("frames", {"fit.epochs=2"});
  frames.insert(frames.end(), {"--transport", "tcp"});
  const ProcessRun again = RunProcess(coordinator, frames, environment, absl::Minutes(3));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_FALSE(Model("three").empty());
  EXPECT_EQ(Model("frames"), Model("three")) << "bit for bit";
}

// As on three hosts: nothing but the workers in TF_CONFIG, and worker 0's host has the coordinator.
TEST_F(MultiWorkerProcess, WorkerZeroCarriesTheCoordinator) {
  const ProcessRun free =
      RunProcess(coordinator, {"--free_ports", "3"}, environment, absl::Minutes(1));
  ASSERT_EQ(free.exit_code, 0) << free.err;
  json workers = json::array();
  for (const absl::string_view port :
       absl::StrSplit(free.out, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    workers.push_back(absl::StrCat("127.0.0.1:", port));
  }
  ASSERT_EQ(workers.size(), 3u) << free.out;
  const auto host = [&](size_t index) {
    return std::map<std::string, std::string>{
        {"TF_CONFIG", json({{"cluster", {{"worker", workers}}}}).dump()},
        {"COHORT_BIN", COHORT_BIN_DIR},
        {"COHORT_BIND", workers[index]}};
  };
  const std::string script = absl::StrCat(COHORT_SOURCE_DIR, "/deploy/multi_worker.sh");
  std::vector<std::string> job = Arguments("hosts", {"fit.epochs=2"});
  job.erase(job.begin(), job.begin() + 6);  // --job, --local and --state_dir, with their values
  const std::string file = absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json");
  job.insert(job.begin(), {"0", file});
  job.insert(job.end(), {"--ctl_address", "none"});
  RunningProcess second(script, {"2", file}, host(2));
  RunningProcess first(script, {"1", file}, host(1));
  const ProcessRun run = RunProcess(script, job, host(0), absl::Minutes(3));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 32);
  EXPECT_FALSE(Model("hosts").empty());
  for (RunningProcess* const other : {&first, &second}) {
    const ProcessRun ended = other->Wait(absl::Minutes(1));
    EXPECT_EQ(ended.exit_code, 0) << "told to end: " << ended.err;
  }
}

// The two others train on; the supervisor starts a third, which gets a copy. Nothing is taken back,
// and no checkpoint is needed.
TEST_F(MultiWorkerProcess, AKilledWorkerIsReplacedWhileTheOthersTrainOn) {
  RunningProcess job(coordinator, Arguments("killed", {"fit.epochs=120", "recovery.enabled=false"}),
                     environment);
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  Kill("killed", 1);
  ASSERT_TRUE(job.ReadErrUntil("event=worker_out_of_step worker=1 ", absl::Minutes(1)))
      << job.err();
  ASSERT_TRUE(job.ReadErrUntil("event=worker_in_step worker=1 ", absl::Minutes(1))) << job.err();
  Kill("killed", 0);
  ASSERT_TRUE(job.ReadErrUntil("event=worker_in_step worker=0 ", absl::Minutes(1))) << job.err();
  const ProcessRun run = job.Wait(absl::Minutes(3));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 16 * 120);
  const ProcessRun whole = Run("whole", {"fit.epochs=120"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_NEAR(summary["test_accuracy"], json::parse(whole.LastLine())["test_accuracy"], 0.03);
}

// On those that are left; the files are read when the job is over.
TEST_F(MultiWorkerProcess, ALostWorkerLeavesFlightRecordsThatAreLaidSideBySide) {
  RunningProcess job(coordinator, Arguments("lost", {"fit.epochs=60", "recovery.enabled=false"}),
                     environment);
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  Kill("lost", 1);
  ASSERT_TRUE(job.ReadErrUntil("event=worker_in_step worker=1 ", absl::Minutes(1))) << job.err();
  ASSERT_EQ(job.Wait(absl::Minutes(3)).exit_code, 0) << job.err();
  std::vector<std::string> words = {"ctl", "flight-record", "4096"};
  const auto names = files.List(temp / "lost");
  ASSERT_TRUE(names.ok()) << names.status();
  for (const int worker : {0, 2}) {
    EXPECT_THAT(Log("lost", worker), HasSubstr("event=flight_record generation="));
    for (const std::string& name : *names) {
      if (absl::StartsWith(name, absl::StrCat("cohort-worker-", worker, "-"))) {
        words.push_back(JoinPath(temp / "lost", name));
      }
    }
  }
  EXPECT_EQ(words.size(), 5u) << "one of each of the two";
  const ProcessRun shown = RunProcess(coordinator, words, {}, absl::Minutes(1));
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("  rank 1, worker:1: has no file here\n"));
  EXPECT_THAT(shown.out, testing::ContainsRegex("rank 0, worker:0: [0-9]+ calls started"));
  EXPECT_THAT(shown.out, testing::ContainsRegex("rank 2, worker:2: [0-9]+ calls started"));
  EXPECT_THAT(shown.out, testing::ContainsRegex("it ended with: .*worker:1"));
  words.push_back(temp / "none.flight.json");
  const ProcessRun wrong = RunProcess(coordinator, words, {}, absl::Minutes(1));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("none.flight.json"));
}

// A killed worker where gradients travel as frames: over plain TCP, and over gRPC alone.
TEST_F(MultiWorkerProcess, AWorkerThatIsKilledUnderFramesIsReplaced) {
  for (const std::string transport : {"tcp", "grpc"}) {
    SCOPED_TRACE(transport);
    std::vector<std::string> arguments =
        Arguments(transport, {"fit.epochs=60", "recovery.enabled=false"});
    arguments.insert(arguments.end(), {"--transport", transport});
    RunningProcess job(coordinator, arguments, environment);
    ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
    Kill(transport, 1);
    ASSERT_TRUE(job.ReadErrUntil("event=worker_out_of_step worker=1 ", absl::Minutes(1)))
        << job.err();
    ASSERT_TRUE(job.ReadErrUntil("event=worker_in_step worker=1 ", absl::Minutes(1))) << job.err();
    const ProcessRun run = job.Wait(absl::Minutes(3));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json::parse(run.LastLine())["steps"], 16 * 60);
    for (int worker = 0; worker < 3; ++worker) {
      EXPECT_THAT(Log(transport, worker), HasSubstr("event=stopped drained=yes")) << worker;
    }
  }
}

TEST_F(MultiWorkerProcess, AWorkerThatStandsStillForLessThanTheLeaseIsWaitedFor) {
  RunningProcess job(coordinator, Arguments("still", {"fit.epochs=20"}), environment);
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  Signal("still", 2, SIGSTOP);
  EXPECT_FALSE(job.ReadErrUntil("event=worker_out_of_step", absl::Seconds(1)));  // the lease is 5
  Signal("still", 2, SIGCONT);
  const ProcessRun run = job.Wait(absl::Minutes(3));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::Not(HasSubstr("event=worker_out_of_step")));
  const ProcessRun whole = Run("whole", {"fit.epochs=20"});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(Model("still"), Model("whole")) << "bit for bit";
}

// A worker stands still, and an operator asks who waits for whom.
TEST_F(MultiWorkerProcess, TheFlightRecordNamesTheWorkerThatIsWaitedFor) {
  RunningProcess job(coordinator,
                     Arguments("record", {"fit.epochs=1000000", "cluster.lease_timeout_ms=600000"}),
                     environment);
  ASSERT_TRUE(job.ReadErrUntil("Epoch 2/", absl::Minutes(1))) << job.err();
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"ctl", "flight-record"});
    words.insert(words.end(), {"--state_dir", temp / "record"});
    const ProcessRun run = RunProcess(coordinator, words, {}, absl::Minutes(1));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  const json all = json::parse(ask({"4096", "--json"}));
  ASSERT_EQ(all["workers"].size(), 3u);
  for (const json& worker : all["workers"]) {
    EXPECT_EQ(worker["error"], "");
    ASSERT_EQ(worker["groups"].size(), 1u) << worker;
    const json& group = worker["groups"][0];
    EXPECT_EQ(group["size"], 3);
    ASSERT_GE(group["operations"].size(), 16u) << "an epoch has 16 steps";
    // The sums of a step with the states of its metrics, which are float64.
    EXPECT_THAT(std::string(group["operations"][0]["call"]), HasSubstr("all-reduce float64"));
    EXPECT_EQ(group["operations"][0]["algorithm"], "shared memory");
  }
  std::string text;
  for (int i = 0; i < kTriesMax; ++i) {
    Signal("record", 2, SIGSTOP);
    text = ask({});
    if (absl::StrContains(text, "rank 0, rank 1 wait in call ")) break;
    // It stands between two epochs, where nobody is in a call.
    Signal("record", 2, SIGCONT);
    ask({});
  }
  EXPECT_THAT(text, HasSubstr("rank 0, rank 1 wait in call "));
  EXPECT_THAT(text, HasSubstr("for rank 2, worker:2, perhaps, which does not answer: "));
  EXPECT_THAT(text, HasSubstr("rank 0, worker:0: "));
  Signal("record", 2, SIGCONT);
  job.Signal(SIGTERM);
  EXPECT_EQ(job.Wait(absl::Minutes(1)).exit_code, kExitInterrupted);
}

// All are gone at once: the job goes back to its checkpoint, and the model is the one that it would
// have been.
TEST_F(MultiWorkerProcess, TheLossOfAllWorkersChangesNothingOfTheModel) {
  const std::vector<std::string> sets = {"fit.epochs=20", "recovery.interval_ms=100"};
  const ProcessRun whole = Run("whole", sets);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  RunningProcess killed(coordinator, Arguments("killed", sets), environment);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovery_checkpoint ", absl::Minutes(1))) << killed.err();
  for (int worker = 0; worker < 3; ++worker) Kill("killed", worker);
  ASSERT_TRUE(killed.ReadErrUntil("event=recovered ", absl::Minutes(1))) << killed.err();
  const ProcessRun run = killed.Wait(absl::Minutes(2));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(Model("whole").empty());
  EXPECT_EQ(Model("killed"), Model("whole")) << "bit for bit";
}

}  // namespace
}  // namespace cohort
