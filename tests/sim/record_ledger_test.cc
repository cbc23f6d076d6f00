// Each record of packed files counts exactly once in each epoch, whatever workers come and go.
//
// The ledger is a table with a row for each record. The loss is the mean distance of the row from a
// far value, so that an applied update adds the same to the rows of its batch: with SGD and a
// learning rate of the batch's size exactly 1. In the end each row is the number of the epochs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/temporary_file.h"
#include "common/formats/safetensors.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/members/worker_changes.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/ledger_records.h"
#include "tests/support/packed.h"
#include "tests/support/stepwise_training.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

constexpr int kRecordsOfFiles[] = {3, 50, 400, 1, 335, 99, 200};
constexpr int kRecords = 1088;  // all of them: 17 batches of 64
constexpr int kBatches = 17;
constexpr int kEpochs = 3;
constexpr int kWorkers = 5;

void PutRecords(FileSystem& files) {
  int64_t id = 0;
  for (size_t file = 0; file < std::size(kRecordsOfFiles); ++file) {
    const std::string records = LedgerRecords(kRecordsOfFiles[file], id);
    const std::string path = absl::StrCat("/part-", file, ".tfrecord.gz");
    ASSERT_TRUE(WriteFileAtomically(files, path, Packed(records, kGzipBits)).ok());
  }
  ASSERT_EQ(id, kRecords);
}

JobSpec LedgerJob(const std::vector<std::string>& overrides) {
  const auto job = ParseJob(R"({
    "seed": 7,
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null], "dtype": "int64"}},
        {"class_name": "Embedding", "config": {"name": "ledger", "input_dim": 1088, "output_dim": 1,
                                               "embeddings_initializer": "zeros"}}]}},
    "compile": {"optimizer": {"class_name": "SGD", "config": {"learning_rate": 64}},
                "loss": "mean_absolute_error"},
    "data": {"train": {"class_name": "TFRecord", "config": {"paths": ["/part-*.gz"], "features": [
        {"name": "id", "dtype": "int64"}, {"name": "label"}]}},
      "order": {"class_name": "blocks", "config": {"block_size": 16, "mixed_blocks": 8}}},
    "export": {"safetensors": "/ledger.safetensors"},
    "fit": {"batch_size": 64, "epochs": 3}})",
                            "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobSpec());
}

// Kills two workers in each epoch, each when a message reaches or leaves it that the seed chooses,
// so also between a push and its report, and starts them anew; and lets a new worker join in each.
class Unrest final : public SimWatcher {
 public:
  Unrest(SimCluster& cluster, uint64_t seed) : cluster_(cluster), random_(seed, "unrest") {
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      for (uint64_t i = 0; i < 2; ++i) kills_.push_back(Draw(epoch, i));
      joins_.push_back(Draw(epoch, 2));
    }
  }

  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "RunClosure")) return;
    ++closures_;
    Note(message.to);
  }
  SimFate OnResponse(const SimMessage& message) override {
    // A worker dies when a ps has answered its push, before the worker reports the closure.
    if (absl::EndsWith(message.method, "Push")) Note(message.from);
    return {};
  }

  void SetChanges(WorkerChanges* changes) { changes_ = changes; }
  int killed() const { return killed_; }
  int joined() const { return joined_; }

 private:
  struct Moment {
    int closures = 0;      // how many closures have begun
    bool at_push = false;  // true: when the next push is answered
  };
  Moment Draw(int epoch, uint64_t i) {
    const uint64_t at = static_cast<uint64_t>(epoch) * 10 + i;
    return {epoch * kBatches + static_cast<int>(random_.Below(2 * at, kBatches - 2)) + 1,
            random_.Below(2 * at + 1, 2) == 0};
  }

  // Acts if a moment has come; `worker` is the worker of the message.
  void Note(const std::string& worker) {
    if (!absl::StartsWith(worker, "worker")) return;
    if (!kills_.empty() && closures_ >= kills_.front().closures) {
      kills_.erase(kills_.begin());
      const int index = std::stoi(worker.substr(worker.find(':') + 1));
      ++killed_;
      cluster_.sim().CallAt(cluster_.sim().Now(), [this, index] {
        cluster_.tasks().Kill({Role::kWorker, index});
        if (index >= kWorkers) return;
        cluster_.sim().CallAt(cluster_.sim().Now() + absl::Milliseconds(1500), [this, index] {
          cluster_.tasks().Start({Role::kWorker, index});
        });
      });
    }
    if (!joins_.empty() && closures_ >= joins_.front().closures) {
      joins_.erase(joins_.begin());
      const int index = kWorkers + joined_++;
      cluster_.sim().CallAt(cluster_.sim().Now(), [this, index] {
        changes_->Add(cluster_.tasks().AddWorker(index),
                      [](const absl::StatusOr<WorkerChanges::Added>&) {});
      });
    }
  }

  SimCluster& cluster_;
  const RandomStream random_;
  std::vector<Moment> kills_;
  std::vector<Moment> joins_;
  int closures_ = 0;
  int killed_ = 0;
  int joined_ = 0;
  WorkerChanges* changes_ = nullptr;
};

std::vector<float> LedgerOf(FileSystem& files) {
  auto file = files.Open("/ledger.safetensors");
  if (!file.ok()) return {};
  const auto tensors = OpenSafetensors(*std::move(file), "/ledger.safetensors", nullptr);
  if (!tensors.ok() || (*tensors)->tensors().size() != 1) return {};
  const auto values = (*tensors)->Read(0);
  if (!values.ok()) return {};
  const auto span = values->span<float>();
  return {span.begin(), span.end()};
}

TEST(RecordLedger, EachRecordCountsOnceInEachEpoch) {
  const uint64_t first = TestSeed(1);
  const uint64_t seeds = std::getenv("COHORT_TEST_SEED") == nullptr ? 300 : 1;
  int killed = 0;
  int joined = 0;
  uint64_t put_back = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(Replay("sim_test", seed, "RecordLedger.*"));
    SimCluster cluster(seed, 2, kWorkers);
    PutRecords(cluster.FilesOf("worker:0"));
    Unrest unrest(cluster, seed);
    const JobSpec job = LedgerJob({});
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.lease = absl::Seconds(1);
    options.attempts_max = options.quarantine_after = 1000;
    const auto coordinator = cluster.Connect(std::move(options));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    const World world = cluster.WorldOf("chief:0");
    const auto changes = WorkerChanges::Create(world, (*coordinator)->parts().cluster, {});
    unrest.SetChanges(changes.get());
    cluster.network().SetWatcher(&unrest);
    const auto sources = FindDataSources(world, cluster.waiter(), job.data, {}, job.seed);
    ASSERT_TRUE(sources.ok()) << sources.status();
    const auto summary = Trainer(world, cluster.waiter(), **coordinator, job, *sources).Run();
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->steps, kEpochs * kBatches);
    EXPECT_EQ(LedgerOf(world.files), std::vector<float>(kRecords, kEpochs));
    killed += unrest.killed();
    joined += unrest.joined();
    put_back += summary->closures.put_back;
    cluster.End();
  }
  if (seeds == 1) return;
  // The unrest was one.
  EXPECT_EQ(killed, 300 * 2 * kEpochs);
  EXPECT_EQ(joined, 300 * kEpochs);
  EXPECT_GT(put_back, 300u);
}

}  // namespace
}  // namespace cohort
