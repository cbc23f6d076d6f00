// Functions of columns that adapt to the training data: what they find does not depend on the
// workers, belongs to what was trained, and is restored with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A job over a CSV file with a number and a text, whose functions adapt to it.
JobSpec JobWith(const std::vector<std::string>& overrides) {
  const auto job = ParseJob(R"({
    "model": {"class_name": "Functional", "config": {"name": "m", "layers": [
        {"class_name": "InputLayer", "inbound_nodes": [],
         "config": {"name": "age", "batch_shape": [null]}},
        {"class_name": "InputLayer", "inbound_nodes": [],
         "config": {"name": "job", "batch_shape": [null], "dtype": "int64"}},
        {"class_name": "InputLayer", "inbound_nodes": [],
         "config": {"name": "bin", "batch_shape": [null], "dtype": "int64"}},
        {"class_name": "Reshape", "config": {"name": "ages", "target_shape": [1]},
         "inbound_nodes": [[["age", 0, 0]]]},
        {"class_name": "Embedding", "config": {"name": "jobs", "input_dim": 8, "output_dim": 2},
         "inbound_nodes": [[["job", 0, 0]]]},
        {"class_name": "Embedding", "config": {"name": "bins", "input_dim": 4, "output_dim": 2},
         "inbound_nodes": [[["bin", 0, 0]]]},
        {"class_name": "Concatenate", "config": {"name": "all"},
         "inbound_nodes": [[["ages", 0, 0], ["jobs", 0, 0], ["bins", 0, 0]]]},
        {"class_name": "Dense", "config": {"name": "out", "units": 1},
         "inbound_nodes": [[["all", 0, 0]]]}],
      "input_layers": [["age", 0, 0], ["job", 0, 0], ["bin", 0, 0]],
      "output_layers": [["out", 0, 0]]}},
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "data": {"train": {"class_name": "CSV", "config": {"paths": ["/a.csv"], "columns": [
        {"name": "age"}, {"name": "job", "dtype": "string"}, {"name": "y"}]}},
      "pipeline": [
        {"class_name": "Normalization", "config": {"column": "age"}},
        {"class_name": "StringLookup", "config": {"column": "job", "max_tokens": 4}},
        {"class_name": "Discretization",
         "config": {"column": "age", "output": "bin", "num_bins": 4}}],
      "labels": "y"},
    "checkpoint": {"directory": "/saved"},
    "fit": {"batch_size": 1000, "epochs": 1}})",
                            "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobSpec());
}

// `rows` rows, whose ages are from `begin` on: more than two parts of what workers are asked for.
void PutRows(FileSystem& files, int rows, int begin) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const char* const jobs[] = {"smith", "clerk", "smith", "judge", "clerk", "smith", "nurse"};
    absl::StrAppend(&text, begin + i, ",", jobs[i % 7], ",", i % 2, "\n");
  }
  ASSERT_TRUE(WriteFileAtomically(files, "/a.csv", text).ok());
}

absl::StatusOr<TrainSummary> Train(SimCluster& cluster, const JobSpec& job) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.lease = absl::Seconds(1);
  ASSIGN_OR_RETURN(const auto coordinator, cluster.Connect(std::move(options)));
  const World world = cluster.WorldOf("chief:0");
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(world, cluster.waiter(), job.data, {}, job.seed));
  Trainer trainer(world, cluster.waiter(), *coordinator, job, std::move(sources));
  return trainer.Run();
}

// Returns the state of the pipeline that the only checkpoint has.
std::string StateOf(SimCluster& cluster, const std::string& name) {
  const auto text = ReadFile(cluster.FilesOf("chief:0"), "/saved/" + name + ".preprocessing.json");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

constexpr int kRows = 20000;

std::string StateWith(int workers) {
  SimCluster cluster(1, 1, workers);
  PutRows(cluster.FilesOf("worker:0"), kRows, 10);
  const auto summary = Train(cluster, JobWith({}));
  EXPECT_TRUE(summary.ok()) << summary.status();
  return StateOf(cluster, "ckpt-20");
}

TEST(Adapt, FindsTheSameWithAnyWorkers) {
  const std::string state = StateWith(1);
  // Mean and variance of 20,000 numbers in a row from 10 on are (n - 1) / 2 + 10 and (n^2 - 1)
  // / 12.
  EXPECT_THAT(state, HasSubstr("10009.5"));
  EXPECT_THAT(state, HasSubstr("33333333.25"));
  // The bounds are quarters of what Normalization, which comes before, has made of the ages.
  EXPECT_THAT(state, AllOf(HasSubstr("-0.866"), HasSubstr("0.866")));
  // Two tokens are equally frequent, and the one of greater bytes is kept.
  EXPECT_THAT(state, AllOf(HasSubstr("smith"), HasSubstr("clerk"), HasSubstr("nurse")));
  EXPECT_THAT(state, testing::Not(HasSubstr("judge")));
  EXPECT_EQ(StateWith(2), state);
  EXPECT_EQ(StateWith(3), state);
}

// Kills the worker that gets the call of this number to read what to adapt to.
class KillsAtCall final : public SimWatcher {
 public:
  KillsAtCall(SimCluster& cluster, uint64_t number) : cluster_(cluster), left_(number) {}
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "GatherStatistics") || left_ == 0 || --left_ > 0) return;
    const int worker = message.to.back() - '0';
    cluster_.sim().CallAt(cluster_.sim().Now(), [&, worker] {
      cluster_.tasks().Kill({Role::kWorker, worker});
    });
  }
  SimFate OnResponse(const SimMessage&) override { return {}; }
  bool has_killed() const { return left_ == 0; }

 private:
  SimCluster& cluster_;
  uint64_t left_;
};

TEST(Adapt, AWorkerIsLostMeanwhile) {
  const std::string state = StateWith(1);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SimCluster cluster(seed, 1, 3);
    PutRows(cluster.FilesOf("worker:0"), kRows, 10);
    KillsAtCall watcher(cluster, 1 + seed % 3);
    cluster.network().SetWatcher(&watcher);
    const auto summary = Train(cluster, JobWith({}));
    EXPECT_TRUE(summary.ok()) << summary.status();
    EXPECT_TRUE(watcher.has_killed());
    EXPECT_EQ(StateOf(cluster, "ckpt-20"), state);
    cluster.End();
  }
}

// A restored model keeps the vocabulary and the numbers with which it was trained.
TEST(Adapt, ARestoredJobKeepsWhatItAdaptedTo) {
  for (const bool from_restore : {true, false}) {
    SimCluster cluster(1, 1, 2);
    PutRows(cluster.FilesOf("worker:0"), kRows, 10);
    ASSERT_TRUE(Train(cluster, JobWith({})).ok());
    const std::string state = StateOf(cluster, "ckpt-20");
    PutRows(cluster.FilesOf("worker:0"), kRows, 500);  // data with another mean
    const auto summary = Train(
        cluster, JobWith({"fit.epochs=2", from_restore ? "checkpoint.restore=latest"
                                                       : "checkpoint.init_from=/saved/ckpt-20"}));
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(StateOf(cluster, std::string(BaseName(summary->checkpoint))), state);
  }
}

TEST(Adapt, AnotherPipelineAdaptsAnew) {
  SimCluster cluster(1, 1, 1);
  PutRows(cluster.FilesOf("worker:0"), kRows, 10);
  ASSERT_TRUE(Train(cluster, JobWith({})).ok());
  PutRows(cluster.FilesOf("worker:0"), kRows, 500);
  const auto summary = Train(cluster, JobWith({"fit.epochs=2", "checkpoint.restore=latest",
                                               "data.pipeline.1.config.max_tokens=5"}));
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(StateOf(cluster, "ckpt-40"), AllOf(HasSubstr("10499.5"), HasSubstr("judge")));
}

TEST(Adapt, OnlyTheTrainingExamplesCount) {
  SimCluster cluster(1, 1, 1);
  PutRows(cluster.FilesOf("worker:0"), kRows, 10);
  const auto summary = Train(cluster, JobWith({"fit.validation_split=0.5"}));
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(StateOf(cluster, "ckpt-10"), HasSubstr("5009.5"));
}

TEST(Adapt, DataToWhichNothingCanAdaptAreNamed) {
  SimCluster cluster(1, 1, 1);
  ASSERT_TRUE(WriteFileAtomically(cluster.FilesOf("worker:0"), "/a.csv", "1,a,1\nnan,b,0\n").ok());
  EXPECT_THAT(
      Train(cluster, JobWith({})).status().message(),
      AllOf(HasSubstr("data.pipeline.0: column 'age' has 1 numbers that are NaN or infinite"),
            HasSubstr("give mean and variance")));
  ASSERT_TRUE(
      WriteFileAtomically(cluster.FilesOf("worker:0"), "/a.csv", "1,[UNK],1\n2,[UNK],0\n").ok());
  EXPECT_THAT(Train(cluster, JobWith({})).status().message(),
              HasSubstr("data.pipeline.1: column 'job' has no tokens"));
  ASSERT_TRUE(WriteFileAtomically(cluster.FilesOf("worker:0"), "/a.csv", "1,a,1\nx,b,0\n").ok());
  EXPECT_THAT(Train(cluster, JobWith({})).status().message(),
              AllOf(HasSubstr("worker:0 cannot read the data to adapt to"),
                    HasSubstr("record 1 of /a.csv: field 0 (column 'age'): 'x'")));
}

TEST(Adapt, VocabulariesAreReadFromFiles) {
  SimCluster cluster(1, 1, 1);
  FileSystem& files = cluster.FilesOf("worker:0");
  PutRows(files, kRows, 10);
  ASSERT_TRUE(WriteFileAtomically(files, "/jobs.txt", "judge\nsmith\n").ok());
  const std::string vocabulary = "data.pipeline.1.config.vocabulary=/jobs.txt";
  ASSERT_TRUE(Train(cluster, JobWith({vocabulary})).ok());
  EXPECT_THAT(StateOf(cluster, "ckpt-20"),
              AllOf(HasSubstr("judge"), testing::Not(HasSubstr("clerk"))));
  ASSERT_TRUE(WriteFileAtomically(files, "/jobs.txt", "a\nb\nc\nd\n").ok());
  EXPECT_THAT(Train(cluster, JobWith({vocabulary})).status().message(),
              HasSubstr("data.pipeline.1.vocabulary: has 5 tokens with those of the mask and of "
                        "unknown ones, above data.pipeline.1.max_tokens, 4"));
  EXPECT_THAT(Train(cluster, JobWith({"data.pipeline.1.config.max_tokens=1"})).status().message(),
              HasSubstr("data.pipeline.1: max_tokens is 1, which leaves no index for a token"));
  EXPECT_THAT(
      Train(cluster, JobWith({"data.pipeline.1.config.vocabulary=/none"})).status().message(),
      HasSubstr("/none"));
}

}  // namespace
}  // namespace cohort
