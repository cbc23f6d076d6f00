// WorkerService.ListDevices, over a table of CUDA that only counts.

#include <cstdio>

#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Of so many devices; negative: the driver fails.
CudaTable Counting(int32_t& devices) {
  CudaTable table;
  table.self = &devices;
  table.device_count = [](void* library, int32_t* count) -> int32_t {
    *count = *static_cast<int32_t*>(library);
    return *count < 0 ? 100 : kCudaDone;
  };
  table.error_words = [](void*, int32_t code, char* words, uint64_t bytes) {
    std::snprintf(words, bytes, "CUDA: no device (%d)", code);
  };
  return table;
}

absl::StatusOr<proto::ListDevicesResponse> List(WorkerCluster& cluster, uint64_t epoch = 1) {
  proto::ListDevicesRequest request;
  request.set_epoch(epoch);
  auto response = cluster.CallWorker<proto::ListDevicesResponse>("ListDevices", request);
  if (!response.ok()) return response.status();
  return response->header;
}

TEST(ListDevices, AreAllGpusOfTheWorkerWhereThereAreSome) {
  int32_t count = 3;
  const CudaTable table = Counting(count);
  WorkerCluster cluster(0, [&table] { return &table; });
  ASSERT_TRUE(cluster.Attach(1).ok());
  const auto three = List(cluster);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(three->devices(), ElementsAre("gpu:0", "gpu:1", "gpu:2"));
  EXPECT_THAT(three->no_gpu_reason(), IsEmpty());
  count = 0;
  const auto none = List(cluster);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(none->devices(), ElementsAre("cpu:0"));
  EXPECT_EQ(none->no_gpu_reason(), "this machine has no GPU");
  count = -1;
  const auto broken = List(cluster);
  ASSERT_TRUE(broken.ok()) << broken.status();
  EXPECT_THAT(broken->devices(), ElementsAre("cpu:0"));
  EXPECT_THAT(broken->no_gpu_reason(), HasSubstr("looking for GPUs: CUDA: no device (100)"));
}

TEST(ListDevices, AreTheProcessorWhereCudaCannotBeUsedAndSayWhy) {
  WorkerCluster without(0);
  ASSERT_TRUE(without.Attach(1).ok());
  const auto processor = List(without);
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_THAT(processor->devices(), ElementsAre("cpu:0"));
  EXPECT_THAT(processor->no_gpu_reason(), HasSubstr("computes on its processor alone"));

  WorkerCluster missing(0, [] { return absl::FailedPreconditionError("no module"); });
  ASSERT_TRUE(missing.Attach(1).ok());
  const auto reason = List(missing);
  ASSERT_TRUE(reason.ok()) << reason.status();
  EXPECT_THAT(reason->devices(), ElementsAre("cpu:0"));
  EXPECT_EQ(reason->no_gpu_reason(), "no module");
}

TEST(ListDevices, AreToldToTheCoordinatorThatHoldsTheWorkerAlone) {
  WorkerCluster cluster(0);
  EXPECT_EQ(ClassOf(List(cluster).status()), proto::STALE) << "nobody has attached it";
  ASSERT_TRUE(cluster.Attach(2).ok());
  EXPECT_EQ(ClassOf(List(cluster, 1).status()), proto::STALE);
  EXPECT_TRUE(List(cluster, 2).ok());
}

}  // namespace
}  // namespace cohort
