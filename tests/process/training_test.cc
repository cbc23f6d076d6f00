// Whole jobs through the coordinator's program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/temporary_file.h"
#include "common/program/program.h"
#include "common/wire/route/real_world.h"
#include "coordinator/local/local_cluster.h"
#include "coordinator/train/trainer.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"
#include "worker/data/click_log.h"

namespace cohort {
namespace {

using nlohmann::json;

std::vector<std::string> WithSets(std::vector<std::string> arguments,
                                  const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    arguments.emplace_back("--set");
    arguments.push_back(set);
  }
  return arguments;
}

// The shipped job on few synthetic digits.
const std::vector<std::string> kSmall = {
    R"(data.train={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 2560}})",
    R"(data.test={"class_name": "SyntheticDigits", "config": {"seed": 2, "count": 1000}})",
    "fit.epochs=2"};

ProcessRun Train(const std::vector<std::string>& sets, const std::string& local = "ps=2,worker=3",
                 const std::string& job = "mnist_mlp.json") {
  std::vector<std::string> arguments = {
      "--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/", job), "--local", local};
  const TempDirectory directory("training");
  return RunProcess(absl::StrCat(COHORT_BIN_DIR, "/coordinator"),
                    WithSets(WithSets(arguments, kSmall), sets),
                    {{"TF_CONFIG", ""}, {"TMPDIR", directory.path()}}, absl::Seconds(120));
}

TEST(Training, TheLastLineIsTheSummary) {
  const ProcessRun run = Train({});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  for (const char* key : {"data", "epochs", "steps", "train_seconds", "steps_per_second",
                          "examples_per_second", "test_accuracy", "checkpoint", "model"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  // 2560 examples less a fifth for validation, batches of 128: 16 steps an epoch.
  EXPECT_EQ(summary["steps"], 32);
  EXPECT_EQ(summary["ps_pushes"], 64) << "each step pushes to both ps";
  EXPECT_EQ(summary["ps_applied_slices"], 32 * 6) << "six variables, one slice each";
  EXPECT_EQ(summary["test_examples"], 1000) << "each test example once";
  EXPECT_GT(summary["test_accuracy"], 0.2) << "it learns";
}

TEST(Training, SparseLabelsWithAdam) {
  const ProcessRun run = Train({}, "ps=1,worker=2", "mnist_mlp_sparse_adam.json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["steps"], 32);
}

// The synthetic digits are easier than MNIST's for windows that slide.
TEST(Training, AConvolutionalNetworkLearns) {
  const TempDirectory directory("training");
  const std::string model = absl::StrCat(directory.path(), "/model.onnx");
  // One step at a time: how far so few steps come does not depend on what they overtake.
  const ProcessRun run =
      Train({absl::StrCat("export.onnx=", model), "fit.batch_size=64", "fit.closures_in_flight=1"},
            "ps=2,worker=1", "mnist_cnn.json");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], 2 * 40);
  EXPECT_EQ(summary["ps_applied_slices"], 2 * 40 * 10)
      << "two kernels, two layers' gamma and beta, two kernels and biases; no moving statistics";
  EXPECT_GT(summary["test_accuracy"], 0.5);
  PosixFileSystem files;
  const auto exported = ReadFile(files, model);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_TRUE(LoadModel(*exported).ok());
}

// The moving statistics of a round are the mean of its steps'. As many workers in each run: the
// threads of a convolution show in its last bits, and workers of one machine share its processors.
TEST(Training, SynchronousStepsGiveTheSameMovingStatisticsWhateverTheServers) {
  const TempDirectory directory("training");
  PosixFileSystem files;
  std::set<std::string> models;
  for (const std::string local : {"ps=1,worker=3", "ps=2,worker=3"}) {
    const std::string path = absl::StrCat(directory.path(), "/", local);
    const ProcessRun run =
        Train({R"(strategy.consistency={"class_name": "Synchronous", "config": {"aggregate": 3}})",
               absl::StrCat("export.onnx=", path), "fit.epochs=1"},
              local, "mnist_cnn.json");
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json::parse(run.LastLine())["steps"], 7) << "20 batches in rounds of 3";
    const auto model = ReadFile(files, path);
    ASSERT_TRUE(model.ok()) << model.status();
    models.insert(*model);
  }
  EXPECT_EQ(models.size(), 1u) << "the models differ";
}

// Of the test data of wide_and_deep.json: its labels are drawn with these probabilities, so that
// knowing nothing but their share costs at least the entropy of that share.
double ClickEntropy() {
  double clicks = 0;
  constexpr int kTestRows = 10000;
  for (uint64_t i = 0; i < kTestRows; ++i) clicks += MakeClickRow(2, i).click ? 1 : 0;
  const double share = clicks / kTestRows;
  return -share * std::log(share) - (1 - share) * std::log(1 - share);
}

TEST(Training, AWideAndDeepModelLearnsFromAClickLog) {
  const TempDirectory directory("training");
  const std::string model = absl::StrCat(directory.path(), "/model.onnx");
  const ProcessRun run =
      RunProcess(absl::StrCat(COHORT_BIN_DIR, "/coordinator"),
                 {"--job", absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/wide_and_deep.json"),
                  "--local", "ps=2,worker=2", "--set", absl::StrCat("export.onnx=", model)},
                 {{"TF_CONFIG", ""}, {"TMPDIR", directory.path()}}, absl::Seconds(120));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["data"], "synthetic_click_log");
  EXPECT_EQ(summary["steps"], 3 * 157) << "40000 rows in batches of 256";
  EXPECT_EQ(summary["ps_pushes"], 2 * 3 * 157) << "each step pushes to each ps once";
  EXPECT_LT(summary["test_loss"], ClickEntropy() - 0.05);
  PosixFileSystem files;
  const auto exported = ReadFile(files, model);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_TRUE(LoadModel(*exported).ok());
}

// Tables without a vocabulary: a row for each value of a column that the training data has, none
// for those that only the test data has.
TEST(Training, DynamicTablesLearnFromKeysAndHaveARowForEachThatWasTrained) {
  const TempDirectory directory("training");
  PosixFileSystem files;
  const auto text =
      ReadFile(files, absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/wide_and_deep.json"));
  ASSERT_TRUE(text.ok()) << text.status();
  const std::string path = absl::StrCat(directory.path(), "/job.json");
  const std::string keys =
      absl::StrReplaceAll(*text, {{R"("input_dim": 1000)", R"("dynamic": {"dtype": "float16"})"},
                                  {R"("hash_buckets": 1000)", R"("hash_buckets": 2147483647)"}});
  ASSERT_TRUE(WriteFileAtomically(files, path, keys).ok());
  const ProcessRun run = RunProcess(
      absl::StrCat(COHORT_BIN_DIR, "/coordinator"), {"--job", path, "--local", "ps=2,worker=2"},
      {{"TF_CONFIG", ""}, {"TMPDIR", directory.path()}}, absl::Seconds(120));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_LT(summary["test_loss"], ClickEntropy() - 0.05);
  std::set<std::pair<size_t, uint32_t>> trained;
  for (uint64_t i = 0; i < 40000; ++i) {
    const ClickRow row = MakeClickRow(1, i);
    for (size_t column = 0; column < row.categories.size(); ++column) {
      trained.emplace(column, row.categories[column].value_or(0) % 2147483647u);
    }
  }
  EXPECT_EQ(summary["table_rows"], trained.size());
  EXPECT_EQ(summary["table_not_admitted"], 0);
}

TEST(Training, ARestoredJobGoesOnWhereItStopped) {
  const TempDirectory directory("training");
  const std::string checkpoints = absl::StrCat("checkpoint.directory=", directory.path());
  ASSERT_EQ(Train({checkpoints}).exit_code, 0);
  // Three epochs in all, of which two are in the checkpoint; on another number of ps.
  const ProcessRun again =
      Train({checkpoints, "checkpoint.restore=latest", "fit.epochs=3"}, "ps=3,worker=1");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const json summary = json::parse(again.LastLine());
  EXPECT_EQ(summary["steps"], 16);
  EXPECT_EQ(summary["epochs"], 1);
  EXPECT_EQ(summary["global_step"], 48);
  EXPECT_THAT(std::string(summary["checkpoint"]), testing::EndsWith("ckpt-48"));
}

// Exported models are whole variables, so that they are the same file however those are cut.
TEST(Training, ARestoredJobMayBeCutOtherwiseAndEndsWithTheSameModel) {
  const TempDirectory directory("training");
  const auto model = [&](const std::string& name) {
    return absl::StrCat("export.onnx=", directory.path(), "/", name);
  };
  const auto shards = [](int count) {
    return absl::StrCat("strategy.partitioner={\"class_name\": \"FixedShardsPartitioner\", ",
                        "\"config\": {\"num_shards\": ", count, "}}");
  };
  const std::string in_order = "fit.closures_in_flight=1";
  const std::string checkpoints = absl::StrCat("checkpoint.directory=", directory.path());
  ASSERT_EQ(Train({in_order, model("straight")}, "ps=2,worker=1").exit_code, 0);
  ASSERT_EQ(Train({in_order, checkpoints, shards(5), "fit.epochs=1"}, "ps=3,worker=1").exit_code,
            0);
  const ProcessRun again =
      Train({in_order, checkpoints, shards(2), "checkpoint.restore=latest", model("again")},
            "ps=1,worker=1");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(json::parse(again.LastLine())["steps"], 16);
  PosixFileSystem files;
  const auto straight = ReadFile(files, absl::StrCat(directory.path(), "/straight"));
  ASSERT_TRUE(straight.ok()) << straight.status();
  EXPECT_TRUE(ReadFile(files, absl::StrCat(directory.path(), "/again")).value_or("") == *straight);
}

// Without backups the steps of a round are the same whoever runs them, and so is their mean.
TEST(Training, SynchronousStepsGiveTheSameModelWhateverTheWorkers) {
  const TempDirectory directory("training");
  const auto train = [&](const std::string& local, int backups, const std::string& name) {
    const ProcessRun run =
        Train({absl::StrCat("strategy.consistency={\"class_name\": \"Synchronous\", \"config\": ",
                            "{\"aggregate\": 3, \"backup_steps\": ", backups, "}}"),
               "fit.closures_in_flight=2",
               absl::StrCat("export.onnx=", directory.path(), "/", name), "fit.epochs=1"},
              local);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? json::parse(run.LastLine()) : json();
  };
  const json one = train("ps=1,worker=1", 0, "one");
  // 16 steps in rounds of 3: the last one has a single step.
  EXPECT_EQ(one["steps"], 6);
  EXPECT_EQ(one["closures_done"], 16 + 4 + 8) << "with 512 rows of validation and 1000 of test";
  EXPECT_EQ(one["ps_applied_slices"], 6 * 6);
  EXPECT_EQ(one["max_staleness"], 0);
  const json many = train("ps=2,worker=3", 0, "many");
  EXPECT_EQ(many["steps"], 6);
  PosixFileSystem files;
  const auto model = ReadFile(files, absl::StrCat(directory.path(), "/one"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(ReadFile(files, absl::StrCat(directory.path(), "/many")).value_or("") == *model);
  const json backed = train("ps=2,worker=3", 1, "backed");
  EXPECT_EQ(backed["steps"], 4);
  EXPECT_EQ(backed["ps_applied_slices"], 6 * 4);
  EXPECT_EQ(backed["ps_dropped_slices"], 6 * 4) << "a step of each round comes last";
}

TEST(Training, PartitionedVariablesTrainTheSameModel) {
  const ProcessRun run = Train({"strategy.partitioner.class_name=FixedShardsPartitioner",
                                "strategy.partitioner.config.num_shards=2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.LastLine())["ps_applied_slices"], 32 * 12)
      << "every variable has two slices";
}

// Validation and test pull float32 all the same.
TEST(Training, CompressedValuesAndGradientsTrainTheModel) {
  const auto train = [](const std::string& compression) {
    const ProcessRun run = Train({absl::StrCat("strategy.compression={", compression, "}")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? json::parse(run.LastLine()) : json();
  };
  const json whole = train("");
  const json half = train(R"("pull_dtype": "bfloat16", "push_dtype": "bfloat16")");
  const json top = train(R"("push_dtype": "float16", "top_k": 0.05)");
  const uint64_t pushed = whole["ps_bytes_in"];
  EXPECT_EQ(half["ps_bytes_in"], pushed / 2);
  EXPECT_LT(half["ps_bytes_out"], whole["ps_bytes_out"]);
  // 5 % of the elements, with 2 bytes of value and 4 of place each in the place of 4.
  EXPECT_NEAR(top["ps_bytes_in"].get<double>() / static_cast<double>(pushed), 0.05 * 6 / 4, 0.005);
  EXPECT_GT(half["test_accuracy"], 0.2) << "it learns";
  EXPECT_GT(top["test_accuracy"], 0.2) << "it learns";
}

double TestLoss(const std::vector<std::string>& sets, const std::string& local) {
  const ProcessRun run = Train(sets, local);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.exit_code == 0 ? json::parse(run.LastLine())["test_loss"].get<double>() : 0;
}

std::string Optimizer(const std::string& class_name, const std::string& config) {
  return absl::StrCat("compile.optimizer={\"class_name\": \"", class_name, "\", \"config\": {",
                      config, "}}");
}

// Nothing after the first `boundary` + 1 steps, of which an epoch has 16.
std::string RateFrom(int boundary, double rate) {
  return absl::StrCat(R"("learning_rate": {"class_name": "PiecewiseConstantDecay", "config": )",
                      "{\"boundaries\": [", boundary, "], \"values\": [0, ", rate, "]}}");
}

const char kNoRate[] = R"("learning_rate": 0)";

// Of one worker with one step at a time, so that steps come in their order.
double LossInOrder(std::vector<std::string> sets) {
  sets.emplace_back("fit.closures_in_flight=1");
  return TestLoss(sets, "ps=2,worker=1");
}

TEST(Training, AScheduleGoesOnFromEpochToEpoch) {
  const double untrained = LossInOrder({Optimizer("SGD", kNoRate)});
  const std::string schedule = Optimizer("SGD", RateFrom(15, 0.1));
  EXPECT_NEAR(LossInOrder({schedule, "fit.epochs=1"}), untrained, 1e-6);
  EXPECT_LT(LossInOrder({schedule, "fit.epochs=2"}), untrained / 1.1);
}

TEST(Training, ClippingDoesNotDependOnSlices) {
  for (const char* key : {"clipnorm", "global_clipnorm"}) {
    const std::string optimizer =
        Optimizer("SGD", absl::StrCat(R"("learning_rate": 0.1, ")", key, "\": 0.1"));
    const double loss = LossInOrder({optimizer});
    EXPECT_NEAR(LossInOrder({optimizer, "strategy.partitioner.class_name=FixedShardsPartitioner",
                             "strategy.partitioner.config.num_shards=5"}),
                loss, 1e-6 * loss)
        << key;
  }
}

// Norms and means of a slice would give another training.
TEST(Training, OptimizersOfWholeVariablesDoNotDependOnThePartitioner) {
  for (const char* class_name : {"Lamb", "Adafactor", "Muon"}) {
    const std::string optimizer = Optimizer(class_name, R"("learning_rate": 0.01)");
    const double loss = LossInOrder({optimizer});
    EXPECT_NEAR(LossInOrder({optimizer, "strategy.partitioner.class_name=FixedShardsPartitioner",
                             "strategy.partitioner.config.num_shards=5"}),
                loss, 1e-6 * loss)
        << class_name;
  }
}

// As Keras's fit does at its end. With a momentum of 1 the average stays what the variables were
// after the first step, which has no rate.
TEST(Training, EndsWithTheMovingAverages) {
  const double untrained = LossInOrder({Optimizer("SGD", kNoRate)});
  EXPECT_LT(LossInOrder({Optimizer("SGD", RateFrom(0, 0.1))}), untrained / 1.1);
  const std::string averaged = RateFrom(0, 0.1) + R"(, "use_ema": true, "ema_momentum": 1)";
  EXPECT_NEAR(LossInOrder({Optimizer("SGD", averaged)}), untrained, 1e-6);
  // Muon's biases have a rule of their own.
  EXPECT_NEAR(LossInOrder({Optimizer("Muon", averaged)}), untrained, 1e-6);
}

// A worker dies in the middle of a job: no step is lost, none counts twice.
TEST(Training, AKilledWorkerCostsNoStep) {
  const TempDirectory directory("killed-worker");
  RealWorld world(2);
  BlockingWaiter waiter;
  LocalCluster::Options local;
  local.ps = 2;
  local.workers = 3;
  local.binary_directory = COHORT_BIN_DIR;
  local.state_directory = directory.path();
  auto tasks = LocalCluster::Start(world.world(), waiter, local);
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ClusterCoordinator::Options connect;
  connect.cluster = (*tasks)->spec();
  connect.address = [tasks = *tasks](TaskId task) { return tasks->Address(task); };
  connect.workers.min = 3;
  auto coordinator = ClusterCoordinator::Connect(world.world(), waiter, connect);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  PosixFileSystem files;
  const auto text = ReadFile(files, absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_mlp.json"));
  ASSERT_TRUE(text.ok());
  auto job = ParseJob(*text, "mnist_mlp.json", kSmall);
  ASSERT_TRUE(job.ok()) << job.status();
  job->fit.epochs = 10;
  // Killed once some steps are done, from another thread, while the trainer runs.
  std::thread killer([&] {
    while ((*coordinator)->stats().done < 40) std::this_thread::yield();
    kill((*tasks)->pids().at(TaskId{Role::kWorker, 1}), SIGKILL);
  });
  DataSources sources =
      *FindDataSources(world.world(), waiter, job->data, MnistSearch(), job->seed);
  Trainer trainer(world.world(), waiter, **coordinator, *job, std::move(sources));
  const auto summary = trainer.Run();
  killer.join();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->steps, 160);
  EXPECT_EQ(summary->ps.applied_slices(), 160u * 6) << "each step once on each of six slices";
  EXPECT_EQ(summary->examples, 10 * 2048.0) << "each example once an epoch";
  coordinator->reset();
  (*tasks)->Stop(waiter, absl::Seconds(10));
}

TEST(CustomLoopExample, Runs) {
  const TempDirectory directory("custom-loop");
  const ProcessRun run = RunProcess(absl::StrCat(COHORT_BIN_DIR, "/custom_loop"),
                                    {directory.path()}, {{"TF_CONFIG", ""}}, absl::Seconds(60));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  // The data is y = 2 x0 - 3 x1 + 1.
  EXPECT_THAT(run.out, testing::HasSubstr("w0 2.000 w1 -3.000"));
}

}  // namespace
}  // namespace cohort
