// A step of replicas on GPUs through the worker: what fails there ends it in words, and the next
// step goes well. GPUs are the stand-in's.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/inline_tensors.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class GpuReplicas : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const gpu : {"gpu:0", "gpu:1"}) program_.mutable_replicas()->add_devices(gpu);
    ASSERT_TRUE(cluster_.Attach(1).ok());
    ASSERT_TRUE(cluster_.CreateVariables(PerceptronLayouts()).ok());
    const absl::Status registered = cluster_.Register(program_, PerceptronLayouts());
    ASSERT_TRUE(registered.ok()) << registered;
    proto::DatasetSpec spec;
    AddInline(spec, Tensor::Zeros(DType::kFloat32, Shape{8, 4}));
    AddInline(spec, Tensor::Zeros(DType::kInt64, Shape{8}));
    spec.add_transforms()->mutable_batch()->set_size(8);
    ASSERT_TRUE(cluster_.CreateDataset(1, spec).ok());
  }
  ~GpuReplicas() override {
    FailCudaStandInAfter(-1);
    FailCudaStandInLateAfter(-1);
  }

  absl::Status Step() {
    proto::RunClosureRequest closure = cluster_.Closure(program_);
    closure.mutable_split()->set_dataset_id(1);
    return cluster_.Run(closure).status();
  }

  proto::Program program_ = PerceptronProgram();
  WorkerCluster cluster_{2, []() -> absl::StatusOr<const CudaTable*> {
                           static const CudaTable& table = MakeCudaStandIn(2, 64 << 20);
                           return &table;
                         }};
};

TEST_F(GpuReplicas, AFailureEndsTheStepInWordsAndTheNextGoesWell) {
  for (const auto fail : {FailCudaStandInAfter, FailCudaStandInLateAfter}) {
    bool while_adding_up = false;
    for (int failures = 0;; ++failures) {
      fail(failures);
      const absl::Status failed = Step();
      fail(-1);
      if (failed.ok()) break;
      const std::string words(failed.message());
      EXPECT_THAT(words, HasSubstr("stand-in: an illegal memory access (700)"));
      while_adding_up |= words.find("replica ") == std::string::npos;
      const absl::Status next = Step();
      ASSERT_TRUE(next.ok()) << failures << ": " << next;
    }
    EXPECT_TRUE(while_adding_up) << "what fails behind the replicas is no replica's";
  }
}

}  // namespace
}  // namespace cohort
