// The convolutional job on four replicas, as real processes: however they are divided between
// workers, and by whatever way gradients travel, each step leaves the same bits.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/posix_file_system.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

constexpr int kReplicas = 4;
constexpr int kSteps = 6;

struct Layout {
  int workers;
  std::string transport = "auto";
  std::string seed = "1";
  std::string type = "multi_worker_mirrored";
};

// The checkpoint of each step, and the model.
std::vector<std::string> Train(const Layout& layout) {
  const TempDirectory temp("layouts");
  std::vector<std::string> devices;
  for (int i = 0; i < kReplicas / layout.workers; ++i) {
    devices.push_back(absl::StrCat("\"cpu:", i, "\""));
  }
  const std::string checkpoints = temp / "checkpoints";
  std::vector<std::string> arguments = {
      "--job",       absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_cnn.json"),
      "--local",     absl::StrCat("worker=", layout.workers),
      "--transport", layout.transport};
  // An epoch is one step, of 22 examples: 6, 6, 5 and 5 for the replicas.
  for (const std::string& set :
       {absl::StrCat("seed=", layout.seed), absl::StrCat("strategy.type=", layout.type),
        absl::StrCat("strategy.devices=[", absl::StrJoin(devices, ","), "]"),
        absl::StrCat("strategy.compute_devices=[", absl::StrJoin(devices, ","), "]"),
        absl::StrCat("fit.epochs=", kSteps), std::string("fit.batch_size=24"),
        std::string(R"(data.train={"class_name":"SyntheticDigits","config":{"count":22}})"),
        std::string(R"(data.test={"class_name":"SyntheticDigits","config":{"count":8}})"),
        absl::StrCat("export.onnx=", temp / "model.onnx"),
        absl::StrCat("checkpoint.directory=", checkpoints),
        absl::StrCat("checkpoint.max_to_keep=", kSteps)}) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  const ProcessRun run = RunProcess(absl::StrCat(COHORT_BIN_DIR, "/coordinator"), arguments,
                                    {{"TF_CONFIG", ""}}, absl::Minutes(3));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  PosixFileSystem files;
  std::vector<std::string> steps;
  for (int step = 1; step <= kSteps; ++step) {
    const std::string file =
        JoinPath(checkpoints, absl::StrCat("ckpt-", step, ".data-00000-of-00001"));
    steps.push_back(ReadFile(files, file).value_or(""));
    EXPECT_FALSE(steps.back().empty()) << file;
  }
  steps.push_back(ReadFile(files, temp / "model.onnx").value_or(""));
  EXPECT_FALSE(steps.back().empty());
  return steps;
}

TEST(ReplicaLayouts, HaveTheSameBitsAfterEachStep) {
  const std::vector<std::string> one_worker = Train({1});
  for (size_t i = 1; i < one_worker.size(); ++i) {
    EXPECT_NE(one_worker[i], one_worker[i - 1]) << "a step changes something";
  }
  EXPECT_NE(Train({1, "auto", "2"}), one_worker) << "another seed";
  for (const Layout& layout :
       {Layout{1}, Layout{2}, Layout{4}, Layout{2, "tcp"}, Layout{4, "tcp"}, Layout{4, "grpc"},
        Layout{1, "auto", "1", "mirrored"}, Layout{1, "auto", "1", "central_storage"}}) {
    const std::vector<std::string> steps = Train(layout);
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_TRUE(steps[i] == one_worker[i])
          << layout.type << ", " << layout.workers << " workers, " << layout.transport << ", step "
          << i + 1;
    }
  }
}

}  // namespace
}  // namespace cohort
