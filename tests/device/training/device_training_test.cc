// Training on a device: each loss is the processor's.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "gtest/gtest.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

class DeviceTraining : public OnCudaDevices {
 protected:
  Trained Train(const JobSpec& job) {
    RunSetup setup;
    setup.examples = 60;  // batches of 24, 24 and 12
    setup.steps = 8;
    setup.find_cuda = [this]() -> absl::StatusOr<const CudaTable*> { return table(); };
    return TrainJob(job, setup);
  }
};

// deploy/jobs/mnist_cnn.json: Conv, BatchNormalization, MaxPool, Dropout, Dense.
JobSpec CnnJob(std::vector<std::string> sets) {
  PosixFileSystem files;
  const std::string path = absl::StrCat(COHORT_SOURCE_DIR, "/deploy/jobs/mnist_cnn.json");
  const auto text = ReadFile(files, path);
  EXPECT_TRUE(text.ok()) << text.status();
  sets.insert(sets.end(),
              {"strategy.type=one_device", "fit.batch_size=24", "fit.closures_in_flight=1",
               R"(data.train={"class_name":"SyntheticDigits","config":{"seed":1,"count":60}})"});
  const auto job = ParseJob(*text, path, sets);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

// Losses are about 2, of float32 sums whose order differs: 1e-7 of each after the first step, and
// ten times as much after eight of them; the bound of ExpectSameCurve is 1e-4.
TEST_P(DeviceTraining, ADenseNetHasTheLossCurveOfTheProcessor) {
  const auto job = [](const char* device) {
    return PerceptronJob({"strategy.type=one_device", absl::StrCat("strategy.device=", device),
                          "fit.batch_size=24"});
  };
  const Trained host = Train(job("cpu:0"));
  const Trained there = Train(job("gpu:0"));
  ExpectSameCurve(there, host, "gpu:0");
  EXPECT_NE(there.values, host.values) << "a device has sums of its own";
  EXPECT_EQ(Train(job("gpu:0")).values, there.values) << "the same bits again";
}

TEST_P(DeviceTraining, AConvolutionalNetHasTheLossCurveOfTheProcessor) {
  const Trained host = Train(CnnJob({"strategy.device=cpu:0"}));
  const Trained there = Train(CnnJob({"strategy.device=gpu:0"}));
  ExpectSameCurve(there, host, "gpu:0");
  EXPECT_NE(there.values, host.values) << "a device has sums of its own";
  EXPECT_EQ(Train(CnnJob({"strategy.device=gpu:0"})).values, there.values) << "the same bits again";
}

COHORT_ON_CUDA_DEVICES(DeviceTraining);

}  // namespace
}  // namespace cohort
