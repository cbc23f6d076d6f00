// A step of replicas on GPUs through the worker: what fails there ends it in words, and the next
// step goes well. GPUs are the stand-in's.

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/inline_tensors.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::HasSubstr;

std::atomic<int> opened{0};  // streams

const CudaTable& Counting() {
  static const CudaTable& stand_in = MakeCudaStandIn(2, 64 << 20);
  static CudaTable table = stand_in;
  table.open = [](void* self, int32_t device, CudaContext** context) {
    ++opened;
    return stand_in.open(self, device, context);
  };
  return table;
}

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

  absl::Status Step(const proto::Program& program) {
    proto::RunClosureRequest closure = cluster_.Closure(program);
    closure.mutable_split()->set_dataset_id(1);
    return cluster_.Run(closure).status();
  }

  proto::Program program_ = PerceptronProgram();
  WorkerCluster cluster_{
      2, [table = &Counting()]() -> absl::StatusOr<const CudaTable*> { return table; }};
};

TEST_F(GpuReplicas, AFailureEndsTheStepInWordsAndTheNextGoesWell) {
  for (const auto fail : {FailCudaStandInAfter, FailCudaStandInLateAfter}) {
    bool while_adding_up = false;
    for (int failures = 0;; ++failures) {
      fail(failures);
      const absl::Status failed = Step(program_);
      fail(-1);
      if (failed.ok()) break;
      const std::string words(failed.message());
      EXPECT_THAT(words, HasSubstr("stand-in: an illegal memory access (700)"));
      while_adding_up |= words.find("replica ") == std::string::npos;
      const absl::Status next = Step(program_);
      ASSERT_TRUE(next.ok()) << failures << ": " << next;
    }
    EXPECT_TRUE(while_adding_up) << "what fails behind the replicas is no replica's";
  }
}

// So there is one way for gradients to where the variables are. The sums' stream is not the
// runner's.
TEST_F(GpuReplicas, OneAloneLeavesWhatItPushesToo) {
  proto::Program alone = program_;
  alone.mutable_replicas()->clear_devices();
  alone.mutable_replicas()->add_devices("gpu:1");
  opened = 0;
  ASSERT_TRUE(cluster_.Register(alone, PerceptronLayouts()).ok());
  EXPECT_EQ(opened, 1);
  ASSERT_TRUE(Step(alone).ok());
  ASSERT_TRUE(Step(alone).ok());
  EXPECT_EQ(opened, 2);
}

// Only sums are taken there: all else comes to host memory from each.
TEST_F(GpuReplicas, WhatIsNoSumIsJoinedAsOnTheProcessor) {
  proto::Program program;
  program.set_name("fetches");
  *program.mutable_replicas() = program_.replicas();
  GraphBuilder builder("fetches");
  const std::string x = builder.Input("x", DType::kFloat32, {-1, 4});
  const proto::FetchOfReplicas joins[] = {proto::ROWS_OF_REPLICAS, proto::EACH_REPLICA,
                                          proto::SUM_OF_REPLICAS};
  for (const proto::FetchOfReplicas join : joins) {
    const std::string one = builder.Op("Exp", {x});
    builder.Output(one);
    BindFetch(program, one);
    program.mutable_outputs(program.outputs_size() - 1)->set_of_replicas(join);
  }
  SetModel(program, builder);
  BindBatch(program, x, 0);
  const absl::Status registered = cluster_.Register(program, {});
  ASSERT_TRUE(registered.ok()) << registered;
  proto::RunClosureRequest closure = cluster_.Closure(program);
  closure.mutable_split()->set_dataset_id(1);
  const auto fetched = cluster_.Run(closure);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ(fetched->size(), 4u);
  const auto filled = [](int64_t rows, float value) {
    return std::vector<float>(static_cast<size_t>(rows * 4), value);
  };
  const std::vector<std::vector<float>> wanted = {filled(8, 1), filled(4, 1), filled(4, 1),
                                                  filled(4, 2)};
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto values = (*fetched)[i].span<float>();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), wanted[i]) << i;
  }
}

}  // namespace
}  // namespace cohort
