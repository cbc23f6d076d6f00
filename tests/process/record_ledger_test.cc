// 100,000 records in packed files, five workers, of which two are killed in each epoch while
// another one joins: each record counts exactly once in each epoch. How the ledger counts says
// tests/sim/record_ledger_test.cc, which does the same in simulated time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/formats/safetensors.h"
#include "tests/support/ledger_records.h"
#include "tests/support/packed.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr int kRecordsOfFiles[] = {1, 40000, 7000, 999, 30000, 2000, 20000};
constexpr int kRecords = 100000;
constexpr int kBatch = 32;
constexpr int kEpochs = 3;
// Each try is a process start; a worker that does not work after so many never does.
constexpr int kTriesMax = 1000;

class RecordLedgerTest : public testing::Test {
 protected:
  void PutRecords() {
    int64_t id = 0;
    for (size_t file = 0; file < std::size(kRecordsOfFiles); ++file) {
      const std::string records = LedgerRecords(kRecordsOfFiles[file], id);
      ASSERT_TRUE(WriteFileAtomically(files_, absl::StrCat(temp_.path(), "/part-", file, ".gz"),
                                      Packed(records, kGzipBits))
                      .ok());
    }
    ASSERT_EQ(id, kRecords);
    const json feature = {{"name", "id"}, {"dtype", "int64"}};
    const json job = {
        {"model",
         {{"class_name", "Sequential"},
          {"config",
           {{"layers",
             {{{"class_name", "InputLayer"},
               {"config", {{"batch_shape", {nullptr}}, {"dtype", "int64"}}}},
              {{"class_name", "Embedding"},
               {"config",
                {{"input_dim", kRecords},
                 {"output_dim", 1},
                 {"embeddings_initializer", "zeros"}}}}}}}}}},
        {"compile",
         {{"optimizer", {{"class_name", "SGD"}, {"config", {{"learning_rate", kBatch}}}}},
          {"loss", "mean_absolute_error"}}},
        {"data",
         {{"train",
           {{"class_name", "TFRecord"},
            {"config",
             {{"paths", {temp_ / "part-*.gz"}},
              {"features", {feature, json{{"name", "label"}}}}}}}}}},
        {"export", {{"safetensors", temp_ / "ledger.safetensors"}}},
        {"cluster", {{"max_workers", 9}, {"quarantine_after", 100}, {"max_attempts", 100}}},
        {"fit", {{"batch_size", kBatch}, {"epochs", kEpochs}}}};
    ASSERT_TRUE(WriteFileAtomically(files_, temp_ / "job.json", job.dump()).ok());
  }

  ProcessRun Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    arguments.insert(arguments.end(), {"--state_dir", state_});
    return RunProcess(program_, arguments, {}, absl::Minutes(1));
  }

  // Returns the closures that a worker has done, or -1 if it does not serve.
  int64_t DoneBy(int index) {
    const json status = json::parse(Ctl({"status", "--json"}).out, nullptr, false);
    if (!status.is_object()) return -1;  // the coordinator does not listen yet
    for (const json& member : status.value("members", json::array())) {
      if (member["task"]["role"] != "worker" || member["task"].value("index", 0) != index) continue;
      return std::stoll(member.value("closures_done", "0"));
    }
    return -1;
  }

  void Kill(int index) {
    const auto text = ReadFile(files_, absl::StrCat(state_, "/worker-", index, ".process"));
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_EQ(kill(json::parse(*text)["pid"].get<pid_t>(), SIGKILL), 0) << "worker:" << index;
  }

  PosixFileSystem files_;
  const TempDirectory temp_{"ledger"};
  const std::string state_ = temp_ / "state";
  const std::string program_ = absl::StrCat(COHORT_BIN_DIR, "/coordinator");
};

TEST_F(RecordLedgerTest, EachRecordCountsOnceInEachEpoch) {
  PutRecords();
  RunningProcess coordinator(
      program_, {"--job", temp_ / "job.json", "--local", "ps=2,worker=5", "--state_dir", state_},
      {{"TF_CONFIG", ""}});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch > 0) {
      ASSERT_TRUE(coordinator.ReadErrUntil(absl::StrCat("Epoch ", epoch, "/"), absl::Minutes(3)))
          << coordinator.err();
    }
    const int first = epoch % 5;
    const int second = (epoch + 2) % 5;
    // In the middle of the work: it has begun, and most of the epoch is left.
    for (int i = 0; i < kTriesMax && DoneBy(first) < 1; ++i) {
    }
    Kill(first);
    const ProcessRun added = Ctl({"add-worker"});
    EXPECT_EQ(added.exit_code, 0) << added.err;
    Kill(second);
  }
  const ProcessRun run = coordinator.Wait(absl::Minutes(5));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json summary = json::parse(run.LastLine());
  EXPECT_EQ(summary["steps"], kEpochs * kRecords / kBatch);
  EXPECT_GT(summary["closures_put_back"], 0);
  auto file = files_.Open(temp_ / "ledger.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto tensors = OpenSafetensors(*std::move(file), "ledger", nullptr);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const auto ledger = (*tensors)->Read(0);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  std::map<float, int> times;
  for (const float count : ledger->span<float>()) ++times[count];
  EXPECT_EQ(times, (std::map<float, int>{{kEpochs, kRecords}}));
}

}  // namespace
}  // namespace cohort
