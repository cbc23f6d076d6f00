// A checkpoint restored by a job that cuts its variables otherwise, over another number of
// parameter servers. Expectation: the bits of a job that was never stopped, variables and slots,
// after further steps; a slot that came back wrong would show in them.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/train/trainer.h"
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
  using Files = std::map<std::string, std::string>;

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
    ASSERT_TRUE(world.files.MakeDirectories(kDirectory).ok());
    for (const auto& [name, bytes] : files) {
      const std::string path = absl::StrCat(kDirectory, "/", name);
      ASSERT_TRUE(WriteFileAtomically(world.files, path, bytes).ok());
    }
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
    files.clear();
    const auto names = world.files.List(kDirectory);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      files[name] = *ReadFile(world.files, absl::StrCat(kDirectory, "/", name));
    }
  }

  // Of variables and slots, whole as TensorFlow reads them.
  static std::map<std::string, std::string> Contents(const Files& files) {
    MemoryFileSystem disk;
    EXPECT_TRUE(disk.MakeDirectories(kDirectory).ok());
    for (const auto& [name, bytes] : files) {
      EXPECT_TRUE(WriteFileAtomically(disk, absl::StrCat(kDirectory, "/", name), bytes).ok());
    }
    std::map<std::string, std::string> contents;
    const auto prefix = FindCheckpoint(disk, kDirectory, "latest");
    EXPECT_TRUE(prefix.ok()) << prefix.status();
    const auto reader = BundleReader::Open(disk, *prefix);
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (const auto& [name, tensor] : (*reader)->tensors()) {
      if (absl::EndsWith(name, "/keys")) AddTableRows(**reader, name, contents);
      if (absl::StrContains(name, "/.COHORT_")) continue;  // those are of slices
      const Tensor value = *(*reader)->Read(name);
      contents[name] = absl::StrCat(value.TypeString(), ":");
      contents[name].append(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
    }
    return contents;
  }

  // Of a part of a dynamic table, by its keys: values, slots and how often each row was pushed.
  static void AddTableRows(const BundleReader& reader, const std::string& keys_name,
                           std::map<std::string, std::string>& contents) {
    const std::string part = keys_name.substr(0, keys_name.size() - 4);
    const std::string table = part.substr(0, part.find("/.COHORT_ROWS/"));
    const Tensor keys = *reader.Read(keys_name);
    for (const auto& [name, tensor] : reader.tensors()) {
      if (!absl::StartsWith(name, part) || name == keys_name) continue;
      const Tensor value = *reader.Read(name);
      for (int64_t i = 0; i < keys.num_elements(); ++i) {
        const std::string row =
            absl::StrCat(table, " key ", keys.data<int64_t>()[i], " ", name.substr(part.size()));
        Tensor one = value.Rows(i, 1);
        // Beside it is the time since the last push.
        if (absl::EndsWith(name, "/uses")) one = one.Reshaped(Shape{2}).Rows(1, 1);
        contents[row].append(reinterpret_cast<const char*>(one.raw()), one.num_bytes());
      }
    }
  }

  static void ExpectSame(const Files& files, const Files& expected) {
    const auto contents = Contents(files);
    const auto wanted = Contents(expected);
    ASSERT_EQ(contents.size(), wanted.size());
    for (const auto& [name, bytes] : wanted) {
      ASSERT_EQ(contents.count(name), 1u) << name;
      EXPECT_TRUE(contents.at(name) == bytes) << name << " has other bits";
    }
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
      ExpectSame(files, straight);
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
  for (const char* const dynamic :
       {R"("dynamic": {})", R"("dynamic": {"dtype": "bfloat16", "ttl_seconds": 3600})"}) {
    const std::string keys = absl::StrReplaceAll(*text, {{R"("input_dim": 1000)", dynamic}});
    const std::vector<std::string> sets = {
        R"(data={"train": {"class_name": "SyntheticClickLog",
                           "config": {"count": 96, "hash_buckets": 2147483647}}})",
        "fit.batch_size=32",
        Optimizer("RMSprop", R"("momentum": 0.5, "sparse_updates": "lazy_compensated")")};
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameBits(
        keys, sets, {2, "null"}, {{3, "null"}, {1, Fixed(3)}, {3, "null", Disks::kPrivate}}));
  }
}

}  // namespace
}  // namespace cohort
