// What a program may say of sums on GPUs, and what it is told.

#include "worker/program/make_device_sums.h"

#include "common/program/gpu_number.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/device_summands.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

proto::Program On(const std::vector<std::string>& devices,
                  proto::CrossDeviceOps ops = proto::AUTO_CROSS_DEVICE_OPS) {
  proto::Program program;
  for (const std::string& device : devices) program.mutable_replicas()->add_devices(device);
  program.mutable_replicas()->set_cross_device_ops(ops);
  return program;
}

class MakeDeviceSumsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<DeviceSums>> Make(const proto::Program& program) {
    return MakeDeviceSums(program, {kernels_, Buffer::Allocate, find_cuda_, find_nccl_});
  }
  std::string Error(const proto::Program& program) {
    const absl::Status status = Make(program).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  const KernelRegistry kernels_ = {};
  FakeNccl fake_{2};
  FindCuda find_cuda_ = []() -> absl::StatusOr<const CudaTable*> {
    static const CudaTable& table = MakeCudaStandIn(2, 1 << 20);
    return &table;
  };
  FindNccl find_nccl_ = [this] { return &fake_.table(); };
};

TEST_F(MakeDeviceSumsTest, AreOfReplicasThatAreAllOnGpus) {
  EXPECT_NE(*Make(On({"gpu:0"})), nullptr);
  EXPECT_NE(*Make(On({"gpu:0", "gpu:1"})), nullptr);
  EXPECT_NE(*Make(On({"gpu:0", "gpu:0"}, proto::HIERARCHICAL_COPY)), nullptr);
  EXPECT_EQ(*Make(On({})), nullptr);
  EXPECT_EQ(*Make(On({"cpu:0", "cpu:1"}, proto::HIERARCHICAL_COPY)), nullptr);
  EXPECT_EQ(*Make(On({"gpu:0", "cpu:0"})), nullptr);
  proto::Program gang = On({"gpu:0", "gpu:1"});
  gang.mutable_replicas()->mutable_communication();
  EXPECT_EQ(*Make(gang), nullptr) << "sums travel to other workers from host memory";
}

// The ways have the same bits; but one needs the streams of all GPUs, and one that of the first.
TEST_F(MakeDeviceSumsTest, EachNameIsItsWay) {
  static int opened = 0;
  static const CudaTable& stand_in = MakeCudaStandIn(3, 1 << 20);
  CudaTable counting = stand_in;
  counting.open = [](void* self, int32_t device, CudaContext** context) {
    ++opened;
    return stand_in.open(self, device, context);
  };
  find_cuda_ = [&counting]() -> absl::StatusOr<const CudaTable*> { return &counting; };
  const auto streams = [&](const std::vector<std::string>& devices, proto::CrossDeviceOps ops) {
    std::vector<int32_t> gpus;
    for (const std::string& device : devices) gpus.push_back(*GpuNumber(device));
    const SummandsOnDevices summands(stand_in, gpus, {Shape{3}});
    const auto sums = Make(On(devices, ops));
    EXPECT_TRUE(sums.ok()) << sums.status();
    opened = 0;
    ExpectSums((*sums)->Sum(summands.outputs()), summands.SumsOnHost());
    return opened;
  };
  const std::vector<std::string> two = {"gpu:0", "gpu:1"};
  const std::vector<std::string> three = {"gpu:0", "gpu:1", "gpu:2"};
  EXPECT_EQ(streams(three, proto::REDUCTION_TO_ONE_DEVICE), 1);
  EXPECT_EQ(streams(two, proto::HIERARCHICAL_COPY), 2);
  EXPECT_EQ(streams(two, proto::AUTO_CROSS_DEVICE_OPS), 1);
  EXPECT_EQ(streams(three, proto::AUTO_CROSS_DEVICE_OPS), 3);
}

TEST_F(MakeDeviceSumsTest, WhatIsUnknownIsRefused) {
  EXPECT_THAT(Error(On({"gpu:0"}, static_cast<proto::CrossDeviceOps>(17))),
              HasSubstr("in the unknown way 17"));
  proto::Program packs = On({"gpu:0"});
  packs.mutable_replicas()->set_num_packs(4096);
  EXPECT_TRUE(Make(packs).ok());
  for (const int32_t wrong : {-1, 4097}) {
    packs.mutable_replicas()->set_num_packs(wrong);
    EXPECT_THAT(Error(packs), HasSubstr(absl::StrCat("in ", wrong, " packs; 0 to 4096 can be")));
  }
}

TEST_F(MakeDeviceSumsTest, NcclTakesGpusEachOnce) {
  EXPECT_NE(*Make(On({"gpu:0", "gpu:1"}, proto::NCCL_ALL_REDUCE)), nullptr);
  EXPECT_THAT(Error(On({"gpu:0", "cpu:0"}, proto::NCCL_ALL_REDUCE)),
              HasSubstr("one is on cpu:0: name GPUs alone"));
  EXPECT_THAT(Error(On({"gpu:1", "gpu:0", "gpu:1"}, proto::NCCL_ALL_REDUCE)),
              AllOf(HasSubstr("two are on gpu:1"), HasSubstr("HIERARCHICAL_COPY")));
}

TEST_F(MakeDeviceSumsTest, WithoutNcclWhoAsksForItIsToldWhy) {
  find_nccl_ = [] { return absl::FailedPreconditionError("no NCCL here: install it"); };
  EXPECT_EQ(Make(On({"gpu:0", "gpu:1"}, proto::NCCL_ALL_REDUCE)).status().message(),
            "no NCCL here: install it");
  find_nccl_ = nullptr;
  const absl::Status none = Make(On({"gpu:0", "gpu:1"}, proto::NCCL_ALL_REDUCE)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("this worker has no NCCL"));
  EXPECT_TRUE(Make(On({"gpu:0", "gpu:1"})).ok());
}

TEST_F(MakeDeviceSumsTest, ARefusalNamesTheProgram) {
  WorkerCluster cluster(1, find_cuda_);
  ASSERT_TRUE(cluster.Attach(1).ok());
  proto::Program program = EchoProgram();
  *program.mutable_replicas() = On({"gpu:0", "gpu:1"}, proto::NCCL_ALL_REDUCE).replicas();
  const absl::Status refused = cluster.Register(program, {});
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("program 'echo'"), HasSubstr("this worker has no NCCL")));
}

}  // namespace
}  // namespace cohort
