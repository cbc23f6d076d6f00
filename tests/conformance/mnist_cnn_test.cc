// deploy/jobs/mnist_cnn.json, a convolutional network with BatchNormalization, under each strategy,
// changed by strategy.type and the replicas' devices alone. The expectation is one_device on the
// same global batches. tests/process/mnist_cnn_strategies.sh trains it to its end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

constexpr int64_t kExamples = 228;  // nine batches of 24, and one of 12
constexpr int64_t kSteps = 40;

std::vector<double> Losses(const std::string& type, std::vector<std::string> sets) {
  PosixFileSystem files;
  const std::string path = absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_cnn.json");
  const auto text = ReadFile(files, path);
  EXPECT_TRUE(text.ok()) << text.status();
  sets.insert(sets.end(),
              {absl::StrCat("strategy.type=", type), R"(strategy.devices=["cpu:0","cpu:1"])",
               R"(strategy.compute_devices=["cpu:0","cpu:1"])", "fit.batch_size=24",
               "fit.closures_in_flight=1",
               R"(data.train={"class_name":"SyntheticDigits","config":{"seed":1,"count":228}})"});
  const auto job = ParseJob(*text, path, sets);
  EXPECT_TRUE(job.ok()) << job.status();
  SimCluster cluster(1, type == kParameterServer ? 1 : 0, type == kMultiWorkerMirrored ? 2 : 1);
  const auto coordinator = cluster.Connect(CoordinatorOptionsOf(*job));
  EXPECT_TRUE(coordinator.ok()) << coordinator.status();
  StepwiseTraining training(**coordinator, *job, kExamples);
  const absl::Status begun = training.Begin();
  EXPECT_TRUE(begun.ok()) << begun;
  const auto losses = training.Run(kSteps);
  EXPECT_TRUE(losses.ok()) << losses.status();
  return losses.value_or(std::vector<double>(kSteps));
}

TEST(MnistCnn, EveryStrategyHasTheLossCurveOfOneDeviceWithSynchronizedStatistics) {
  const std::vector<std::string> together = {"model.config.layers.2.config.synchronized=true",
                                             "model.config.layers.6.config.synchronized=true"};
  const std::vector<double> one = Losses("one_device", together);
  EXPECT_LT(one[kSteps - 1], one[0]) << "it learns";
  for (const std::string type :
       {"mirrored", "multi_worker_mirrored", "central_storage", "default", "parameter_server"}) {
    const std::vector<double> losses = Losses(type, together);
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], one[i], 1e-4) << type << ", step " << i;
    }
  }
  // One replica alone has its own statistics either way, but in another arithmetic.
  const std::vector<double> fused = Losses("one_device", {});
  for (size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], one[i], 1e-4) << "step " << i;
}

}  // namespace
}  // namespace cohort
