// Sums of replicas on GPUs have the bits of the sum in host memory, on real ones too: these
// multiply and add with one rounding each. Where there is one GPU the replicas share it.

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/device_summands.h"

namespace cohort {
namespace {

class DeviceSumsBits : public OnCudaDevices {};

TEST_P(DeviceSumsBits, AreThoseOfTheSumInHostMemory) {
  int32_t devices = 0;
  ASSERT_EQ(table()->device_count(table()->self, &devices), kCudaDone);
  for (const size_t replicas : {1, 2, 3, 5, 8}) {
    std::vector<int32_t> gpus;
    for (size_t i = 0; i < replicas; ++i) gpus.push_back(static_cast<int32_t>(i) % devices);
    const SummandsOnDevices summands(*table(), gpus,
                                     {Shape{1023, 77}, Shape{0}, Shape{}, Shape{100003}});
    for (const SumWay way : {SumWay::kReductionToOneDevice, SumWay::kHierarchicalCopy}) {
      for (const int64_t packs : {0, 1, 3}) {
        SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", packs, " packs"));
        DeviceSums sums(DeviceSums::Options{*table(), nullptr, gpus, way, packs});
        for (int step = 0; step < 2; ++step) {
          ExpectSums(sums.Sum(summands.outputs()), summands.SumsOnHost());
        }
      }
    }
  }
}

COHORT_ON_CUDA_DEVICES(DeviceSumsBits);

}  // namespace
}  // namespace cohort
