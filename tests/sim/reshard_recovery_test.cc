// A job that goes on from its recovery checkpoint with another number of parameter servers, however
// it was ended. Expectation: the checkpoint of a job that was never stopped, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/posix_file_system.h"
#include "tests/sim/checkpoint_contents.h"
#include "tests/sim/daemon_sim.h"

namespace cohort {
namespace {

constexpr char kSaved[] = "/saved";

// Three steps in each of four epochs, one at a time: they come in their order. With placement
// `bytes` and no partitioner, large variables are cut by the number of servers.
const std::vector<std::string> kSets = {
    R"(data={"train": {"class_name": "SyntheticClickLog",
                       "config": {"count": 96, "hash_buckets": 1000}}})",
    R"(strategy={"type": "parameter_server", "placement": "bytes"})",
    R"(compile.optimizer={"class_name": "RMSprop",
                          "config": {"momentum": 0.5, "sparse_updates": "lazy_compensated"}})",
    "fit.batch_size=32",
    "fit.epochs=4",
    "fit.closures_in_flight=1",
    "checkpoint.directory=/saved",
    "recovery.directory=/recovery",
    "recovery.interval_ms=3600000",
    "recovery.interval_steps=2"};

// Three tables have keys, and one is large enough to be cut.
std::string JobOf(const std::string& dynamic) {
  PosixFileSystem files;
  const auto text = ReadFile(files, COHORT_SOURCE_DIR "/deploy/jobs/wide_and_deep.json");
  EXPECT_TRUE(text.ok()) << text.status();
  return absl::StrReplaceAll(
      WithKeys(text.value_or(""), dynamic, 3),
      {{R"("table_C4", "input_dim": 1000)", R"("table_C4", "input_dim": 20000)"}});
}

// How a process of the job ends.
enum class End { kInterrupted, kKilled };

// A process of the job with so many servers, which ends behind that many steps of its own.
struct Life {
  int ps = 1;
  int steps = 0;
  End end = End::kInterrupted;
  Disks disks = Disks::kShared;
};

class ReshardedRecovery : public testing::Test {
 protected:
  // Runs one process after the other, each with the files that the one before left, and then one
  // with `last` servers to the end. Returns the saved checkpoints.
  static Files Train(const std::string& job, const std::vector<Life>& lives, int last) {
    Files saved;
    Files recovery;
    for (const Life& life : lives) {
      SCOPED_TRACE(absl::StrCat(life.ps, " ps, ", life.steps, " steps"));
      DaemonSim sim(1, life.ps, 1, kSets, job, life.disks);
      FileSystem& disk = sim.cluster().FilesOf("chief:0");
      PutFiles(saved, disk, kSaved);
      PutFiles(recovery, disk, kRecovery);
      sim.sent().At(life.steps, [&] {
        // A process that is killed saves nothing at its end.
        if (life.end == End::kKilled) sim.disk().Fail(FileCall::Kind::kCreate, kRecovery);
        sim.cluster().sim().Run([&] { sim.Interrupt(); });
      });
      const CoordinatorDaemon::Result result = sim.Run();
      EXPECT_EQ(result.code, life.end == End::kKilled ? kExitJobFailed : kExitInterrupted)
          << result.error;
      saved = FilesIn(disk, kSaved);
      recovery = FilesIn(disk, kRecovery);
    }
    DaemonSim sim(1, last, 1, kSets, job, Disks::kShared);
    FileSystem& disk = sim.cluster().FilesOf("chief:0");
    PutFiles(saved, disk, kSaved);
    PutFiles(recovery, disk, kRecovery);
    const CoordinatorDaemon::Result result = sim.Run();
    EXPECT_EQ(result.code, kExitOk) << result.error;
    EXPECT_EQ(SummaryOf(result)["global_step"], 12);
    return FilesIn(disk, kSaved);
  }
};

TEST_F(ReshardedRecovery, GoesOnWithTheBitsOfAJobThatWasNeverStopped) {
  for (const char* const dynamic :
       {R"("dynamic": {})", R"("dynamic": {"admit_after": 3})",
        R"("dynamic": {"dtype": "bfloat16", "ttl_seconds": 3600})",
        R"("dynamic": {"max_bytes_per_ps": 8388608, "evict": "lfu"})"}) {
    SCOPED_TRACE(dynamic);
    const std::string job = JobOf(dynamic);
    const Files straight = Train(job, {}, 2);
    const std::vector<std::vector<Life>> runs = {
        {{2, 5}}, {{2, 5, End::kKilled}}, {{2, 4}, {5, 3, End::kKilled, Disks::kPrivate}, {1, 3}}};
    for (const std::vector<Life>& lives : runs) {
      SCOPED_TRACE(lives.size());
      ExpectSameCheckpoint(Train(job, lives, 3), straight);
    }
    ExpectSameCheckpoint(Train(job, {{3, 5}}, 2), straight);
  }
}

}  // namespace
}  // namespace cohort
