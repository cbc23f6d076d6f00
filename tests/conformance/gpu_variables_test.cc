// Variables in the memory of a GPU: of central_storage, and of one_device there. The devices are
// the stand-in's: their kernels and copies are the product's.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kCentral[] = "strategy.type=central_storage";
constexpr char kOneGpu[] = R"(strategy.compute_devices=["gpu:0"])";
constexpr char kTwoGpus[] = R"(strategy.compute_devices=["gpu:0","gpu:1"])";
constexpr char kOnGpu[] = "strategy.parameter_device=gpu:0";
constexpr uint64_t kMemory = uint64_t{256} << 20;

// A table that keeps the size of each copy between a device and other memory. One at a time.
class CopiesOfDevices {
 public:
  CopiesOfDevices() : table_(MakeCudaStandIn(2, kMemory)) {
    real_ = table_;
    copies_.clear();
    table_.copy_to_device = [](CudaContext* context, void* to, const void* from, uint64_t bytes) {
      copies_.push_back(bytes);
      return real_.copy_to_device(context, to, from, bytes);
    };
    table_.copy_to_host = [](CudaContext* context, void* to, const void* from, uint64_t bytes) {
      copies_.push_back(bytes);
      return real_.copy_to_host(context, to, from, bytes);
    };
  }

  FindCuda finder() {
    return [this]() -> absl::StatusOr<const CudaTable*> { return &table_; };
  }
  static std::vector<uint64_t> copies() { return copies_; }

 private:
  static inline CudaTable real_;
  static inline std::vector<uint64_t> copies_;
  CudaTable table_;
};

Trained Train(std::vector<std::string> overrides, const RunSetup& setup = {.gpus = 2}) {
  return TrainJob(PerceptronJob(overrides), setup);
}

TEST(GpuVariables, TheLossCurveIsThatOfTheProcessor) {
  for (const char* const optimizer :
       {R"(compile.optimizer={"class_name":"Adam","config":{"weight_decay":0.01}})",
        R"(compile.optimizer={"class_name":"SGD","config":{"momentum":0.9,"clipnorm":0.5}})"}) {
    const Trained one = Train({"strategy.type=one_device", optimizer});
    const Trained there = Train({kCentral, kOneGpu, optimizer});
    ExpectSameCurve(there, one, optimizer);
    EXPECT_EQ(Train({"strategy.type=one_device", "strategy.device=gpu:0", optimizer}).values,
              there.values);
    EXPECT_EQ(Train({kCentral, kOneGpu, kOnGpu, optimizer}).values, there.values);
    ExpectSameCurve(Train({kCentral, kTwoGpus, kOnGpu, optimizer}), one, "two compute");
    ExpectSameCurve(Train({kCentral, kOneGpu, "strategy.parameter_device=gpu:1", optimizer}), one,
                    "another than the one that computes");
    ExpectSameCurve(Train({kCentral, R"(strategy.compute_devices=["cpu:0"])", kOnGpu, optimizer}),
                    one, "the processor computes");
  }
}

TEST(GpuVariables, TheWorkersOnlyGpuHasThem) {
  const Trained named = Train({kCentral, kOneGpu, kOnGpu});
  const Trained found = Train({kCentral}, {.gpus = 1});
  EXPECT_EQ(found.values, named.values);
}

// What crosses in a step are its batch, what is fetched, and no variable and no gradient.
TEST(GpuVariables, NeitherTheyNorTheirGradientsLeaveTheGpu) {
  constexpr uint64_t kKernelBytes = 784 * 24 * sizeof(float);
  CopiesOfDevices devices;
  RunSetup setup;
  setup.find_cuda = devices.finder();
  Train({kCentral, kOneGpu}, setup);
  EXPECT_FALSE(devices.copies().empty());
  EXPECT_THAT(devices.copies(), Not(Contains(kKernelBytes)));
  Train({kCentral, kOneGpu, "strategy.parameter_device=cpu:0"}, setup);
  EXPECT_EQ(std::ranges::count(devices.copies(), kKernelBytes), 2 * setup.steps)
      << "in host memory they cross twice in each step";
}

TEST(GpuVariables, AWholeJobIsTrainedSavedRestoredAndExported) {
  SimCluster cluster(1, 0, 1);
  cluster.tasks().SetGpus({Role::kWorker, 0}, 1);
  const auto there = RunWholeJob(cluster, {kCentral, kOneGpu, "fit.epochs=2"});
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->steps, 14);
  const auto start_worker_anew = [&cluster] {
    cluster.tasks().Kill({Role::kWorker, 0});
    cluster.tasks().Start({Role::kWorker, 0});
  };
  start_worker_anew();
  const auto here = RunWholeJob(
      cluster, {"strategy.type=one_device", "fit.epochs=3", "checkpoint.restore=latest"});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->steps, 7) << "the third epoch alone";
  start_worker_anew();
  const auto again =
      RunWholeJob(cluster, {kCentral, kOneGpu, "fit.epochs=4", "checkpoint.restore=latest"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->steps, 7);
  EXPECT_LT(*again->test_loss, *there->test_loss);
}

TEST(GpuVariables, TheWorkersLossPutsTheJobBackAndItEndsWithTheSameBits) {
  ExpectSameBitsAfterTheWorkersLoss(PerceptronJob({kCentral, kOneGpu}), {.gpus = 1}, 5);
}

TEST(GpuVariables, AWorkerWithoutTheGpuSaysSo) {
  const JobSpec job = PerceptronJob({kCentral, R"(strategy.compute_devices=["cpu:0"])", kOnGpu});
  SimCluster cluster(1, 0, 1);
  const auto coordinator = cluster.Connect(CoordinatorOptionsOf(job));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  StepwiseTraining training(**coordinator, job, RunSetup().examples);
  const absl::Status status = training.Begin();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("is to be in the memory of gpu:0"), HasSubstr("no GPU can be used")));
}

}  // namespace
}  // namespace cohort
