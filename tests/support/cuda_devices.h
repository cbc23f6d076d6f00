#pragma once

// Tests of what runs on CUDA devices run twice: on those of the stand-in, and on gpu:0 of the
// machine, skipped where it has none. A target that includes this has the definitions of
// cohort_test_uses_module(... cuda).

#include <string>

#include "common/runtime/cuda/cuda_library.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/gpus.h"

namespace cohort {

enum class CudaDevices { kStandIn, kGpus };

inline constexpr char kCudaModule[] = COHORT_BIN_DIR "/libcohort_cuda.so";

class OnCudaDevices : public testing::TestWithParam<CudaDevices> {
 protected:
  void SetUp() override {
    if (GetParam() == CudaDevices::kStandIn) {
      constexpr uint64_t kMemory = uint64_t{512} << 20;
      table_ = &MakeCudaStandIn(2, kMemory);
      return;
    }
    const std::string why = WhyNoGpu(COHORT_HAVE_CUDA, "CUDA", [this] { return FindGpu(); });
    if (!why.empty()) GTEST_SKIP() << why;
  }

  // Null where the test is skipped.
  const CudaTable* table() const { return table_; }

 private:
  absl::Status FindGpu() {
    const auto table = LoadCuda(kCudaModule);
    EXPECT_TRUE(table.ok()) << "what was built loads: " << table.status();
    if (!table.ok()) return table.status();
    table_ = *table;
    return CheckCudaDevice(*table_, 0);
  }

  const CudaTable* table_ = nullptr;
};

inline std::string NameOfDevices(const testing::TestParamInfo<CudaDevices>& info) {
  return info.param == CudaDevices::kStandIn ? "StandIn" : "Gpu";
}

#define COHORT_ON_CUDA_DEVICES(suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::Values(CudaDevices::kStandIn, CudaDevices::kGpus), \
                           NameOfDevices)

}  // namespace cohort
