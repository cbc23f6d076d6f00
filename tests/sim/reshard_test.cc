// A checkpoint restored by a job that cuts its variables otherwise, over another number of
// parameter servers. Expectation: the bits of a job that was never stopped, variables and slots,
// after further steps; a slot that came back wrong would show in them.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/checkpoint_contents.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {
namespace {

constexpr char kDirectory[] = "/checkpoints";

// Three steps an epoch.
constexpr char kDigits[] = R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"units": 7, "activation": "relu"}},
        {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "rmsprop", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 96}},
             "pipeline": [{"class_name": "Flatten"},
                          {"class_name": "Rescaling", "config": {"scale": 0.0039}}]},
    "fit": {"batch_size": 32}})";

// Where variables lie.
struct Cut {
  int ps = 1;
  std::string partitioner;  // of the job file
  Disks disks = Disks::kShared;
};

std::string Fixed(int shards) {
  return absl::StrCat(R"({"class_name": "FixedShardsPartitioner", "config": {"num_shards": )",
                      shards, "}}");
}

class Resharding : public testing::Test {
 protected:
  // Trains up to `epochs` from the checkpoint in `files`, if there is one, and leaves its own
  // there. One worker with one step at a time: steps come in their order.
  void Train(const std::string& text, std::vector<std::string> sets, const Cut& cut, int epochs,
             Files& files) {
    sets.push_back(absl::StrCat("fit.epochs=", epochs));
    sets.push_back(absl::StrCat("strategy.partitioner=", cut.partitioner));
    sets.push_back(absl::StrCat("checkpoint.directory=", kDirectory));
    sets.emplace_back("checkpoint.restore=latest");
    const auto job = ParseJob(text, "job", sets);
    ASSERT_TRUE(job.ok()) << job.status();
    SimCluster cluster(11, cut.ps, 1, cut.disks);
    const World world = cluster.WorldOf("chief:0");
    PutFiles(files, world.files, kDirectory);
    ClusterCoordinator::Options options;
    options.closures_in_flight = 1;
    options.checkpoint_chunk_bytes = 999;  // of shards that stream
    const auto coordinator = cluster.Connect(std::move(options));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    const DataSources data = *FindDataSources(world, cluster.waiter(), job->data, {}, job->seed);
    const auto summary = Trainer(world, cluster.waiter(), **coordinator, *job, data).Run();
    ASSERT_TRUE(summary.ok()) << summary.status();
    // A checkpoint in `files` is of one epoch, and the summary counts those of this job alone.
    ASSERT_EQ(summary->epochs, files.empty() ? epochs : epochs - 1);
    files = FilesIn(world.files, kDirectory);
  }

  // Saved after an epoch on `from`, trained on by each of `to` and by one that never stopped.
  void ExpectTheSameBits(const std::string& text, const std::vector<std::string>& sets,
                         const Cut& from, const std::vector<Cut>& to) {
    Files straight;
    ASSERT_NO_FATAL_FAILURE(Train(text, sets, from, 2, straight));
    Files saved;
    ASSERT_NO_FATAL_FAILURE(Train(text, sets, from, 1, saved));
    for (const Cut& cut : to) {
      SCOPED_TRACE(absl::StrCat(cut.ps, " ps, ", cut.partitioner));
      Files files = saved;
      ASSERT_NO_FATAL_FAILURE(Train(text, sets, cut, 2, files));
      ExpectSameCheckpoint(files, straight);
    }
  }
};

std::string Optimizer(const std::string& class_name, const std::string& config) {
  return absl::StrCat(R"(compile.optimizer={"class_name": ")", class_name, R"(", "config": {)",
                      config, "}}");
}

TEST_F(Resharding, EveryOptimizerGoesOnWithItsSlots) {
  const std::vector<std::string> optimizers = {
      Optimizer("SGD", R"("momentum": 0.9, "nesterov": true, "use_ema": true)"),
      Optimizer("Adagrad", R"("weight_decay": 0.01)"),
      Optimizer("RowwiseAdagrad", ""),
      Optimizer("RMSprop", R"("momentum": 0.5, "centered": true)"),
      Optimizer("Adam", R"("amsgrad": true)"),
      Optimizer("AdamW", R"("use_ema": true)"),
      Optimizer("Adamax", ""),
      Optimizer("Nadam", ""),
      Optimizer("Adadelta", R"("learning_rate": 1)"),
      Optimizer("Ftrl", R"("l1_regularization_strength": 0.01, "beta": 0.1)")};
  const std::string by_size =
      R"({"class_name": "MaxSizePartitioner", "config": {"max_shard_bytes": 1000}})";
  for (const std::string& optimizer : optimizers) {
    SCOPED_TRACE(optimizer);
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameBits(
        kDigits, {optimizer}, {3, Fixed(5)},
        {{1, "null"}, {4, Fixed(2)}, {2, by_size}, {2, Fixed(7), Disks::kPrivate}}));
  }
}

// Rows that are not in a batch wait with what they missed, which lies in a slot too.
TEST_F(Resharding, TablesGoOnWithWhatTheirRowsHaveMissed) {
  PosixFileSystem files;
  const auto text = ReadFile(files, COHORT_SOURCE_DIR "/deploy/jobs/wide_and_deep.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const std::vector<std::string> sets = {
      R"(data={"train": {"class_name": "SyntheticClickLog", "config": {"count": 96}}})",
      "fit.batch_size=32",
      Optimizer("RMSprop", R"("momentum": 0.5, "sparse_updates": "lazy_compensated")")};
  ASSERT_NO_FATAL_FAILURE(
      ExpectTheSameBits(*text, sets, {3, Fixed(4)}, {{1, "null"}, {2, Fixed(3)}}));
}

// Keys instead of rows: a slice takes what is its own from the parts that others have saved.
TEST_F(Resharding, DynamicTablesGoOnWithTheirRowsAndSlots) {
  PosixFileSystem files;
  const auto text = ReadFile(files, COHORT_SOURCE_DIR "/deploy/jobs/wide_and_deep.json");
  ASSERT_TRUE(text.ok()) << text.status();
  // A table that counts the keys that it has seen has 2 MiB of counters in each slice.
  const std::vector<std::pair<std::string, int>> kinds = {
      {R"("dynamic": {})", 26},
      {R"("dynamic": {"dtype": "bfloat16", "ttl_seconds": 3600})", 26},
      {R"("dynamic": {"admit_after": 2, "max_bytes_per_ps": 8388608, "evict": "lfu"})", 2}};
  for (const auto& [dynamic, tables] : kinds) {
    const std::string keys = WithKeys(*text, dynamic, tables);
    const std::vector<std::string> sets = {
        absl::StrCat(R"(data={"train": {"class_name": "SyntheticClickLog",
                                        "config": {"count": 96, "hash_buckets": )",
                     tables == 26 ? 2147483647 : 1000, "}}}"),
        "fit.batch_size=32",
        Optimizer("RMSprop", R"("momentum": 0.5, "sparse_updates": "lazy_compensated")")};
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameBits(
        keys, sets, {2, "null"}, {{3, "null"}, {1, Fixed(3)}, {3, "null", Disks::kPrivate}}));
  }
}

}  // namespace
}  // namespace cohort
