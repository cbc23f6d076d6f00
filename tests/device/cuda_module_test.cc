// Finding the module libcohort_cuda.so, and what it says of a machine without a GPU.

#include <string>

#include "common/base/module.h"
#include "common/runtime/cuda/cuda_library.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_devices.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string Error(const std::string& path) {
  const auto table = LoadCuda(path);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(table.status().message());
}

TEST(CudaModule, ThatIsNotThereIsNamedWithWhatToDo) {
  EXPECT_THAT(Error("/nowhere/libcohort_cuda.so"),
              AllOf(StartsWith("no GPU can be used: loading /nowhere/libcohort_cuda.so: "),
                    HasSubstr("No such file"), HasSubstr("build with -DCOHORT_CUDA=ON"),
                    HasSubstr("or use cpu devices")));
}

TEST(CudaModule, ThatIsNoneIsNamed) {
  EXPECT_THAT(Error("/proc/self/status"),
              StartsWith("no GPU can be used: loading /proc/self/status: "));
}

TEST(CudaModule, OfAnotherBuildIsRefused) {
  EXPECT_THAT(Error(COHORT_OTHER_VERSION),
              AllOf(HasSubstr(COHORT_OTHER_VERSION),
                    HasSubstr("is of another build (version 4 of its table, not 3)")));
  EXPECT_THAT(Error("libm.so.6"), HasSubstr("(version 0 of its table"));
}

// The rest runs wherever the module is built, with and without a GPU.
class BuiltCudaModule : public testing::Test {
 protected:
  void SetUp() override {
    if (!COHORT_HAVE_CUDA) GTEST_SKIP() << "needs a build with CUDA";
    const auto table = LoadCuda(kCudaModule);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *table;
  }
  const CudaTable* table_ = nullptr;
};

TEST_F(BuiltCudaModule, IsOfThisVersionAndFillsItsTable) {
  EXPECT_EQ(table_->version, kCudaTableVersion);
  // Everything behind the two first members is a function.
  const auto* const functions = reinterpret_cast<void* const*>(&table_->error_words);
  const auto* const end = reinterpret_cast<void* const*>(table_ + 1);
  for (const auto* function = functions; function < end; ++function) {
    EXPECT_NE(*function, nullptr) << "function " << function - functions;
  }
}

TEST_F(BuiltCudaModule, SaysInWordsWhichDeviceIsNotThere) {
  int32_t count = 0;
  const int32_t code = table_->device_count(table_->self, &count);
  const auto beyond = CudaStream::Open(*table_, count);
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string words(beyond.status().message());
  if (code == kCudaDone) {
    EXPECT_THAT(words, HasSubstr("is not there: this machine has"));
    return;
  }
  EXPECT_THAT(words, AllOf(StartsWith("no GPU can be used: looking for GPUs: CUDA: "),
                           HasSubstr("install the driver that nvidia-smi needs")));
  CudaContext* context = nullptr;
  EXPECT_NE(table_->open(table_->self, 0, &context), kCudaDone);
  EXPECT_EQ(context, nullptr);
}

}  // namespace
}  // namespace cohort
