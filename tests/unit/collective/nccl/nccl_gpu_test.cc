// On GPUs: a rank for each, up to 8. Skipped where there is none (tests/gpu.sh runs these).

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/gpus.h"
#include "tests/unit/collective/conformance/conformance.h"
#include "tests/unit/collective/nccl/nccl_groups.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {
namespace {

constexpr char kModule[] = COHORT_BIN_DIR "/libcohort_nccl.so";

// Sums are in NCCL's order here.
class GpuRanks final : public GroupUnderTest {
 public:
  GpuRanks(const NcclTable* table, int size) {
    NcclGroupSpec spec;
    spec.size = size;
    spec.piece_bytes = 1 << 20;
    ranks_ = std::make_unique<NcclRanks>(
        std::vector<absl::StatusOr<const NcclTable*>>(static_cast<size_t>(size), table), spec);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(ranks_->Joined(rank).ok()) << ranks_->Joined(rank);
    }
  }
  Draw draw() const override { return Draw::kExactInAnyOrder; }
  Communicator& Of(int rank) override { return ranks_->Of(rank); }
  Waiter& waiter() override { return ranks_->waiter(); }

 private:
  std::unique_ptr<NcclRanks> ranks_;
};

class NcclGpu : public testing::Test {
 protected:
  void SetUp() override {
    const NcclTable* table = nullptr;
    const std::string why = WhyNoGpu(COHORT_HAVE_NCCL, "NCCL", [&table] {
      const auto loaded = LoadNccl(kModule);
      EXPECT_TRUE(loaded.ok()) << "what was built loads: " << loaded.status();
      if (!loaded.ok()) return loaded.status();
      table = *loaded;
      return CheckNcclDevice(*table, 0);
    });
    if (!why.empty()) GTEST_SKIP() << why;
    int32_t count = 0;
    ASSERT_EQ(table->device_count(table->self, &count), kNcclDone);
    nccl_.name = "NCCL";
    nccl_.make = [table](int size) { return std::make_unique<GpuRanks>(table, size); };
    nccl_.ranks_max = std::min(count, 8);
    nccl_.many_ranks = count >= 6;
    nccl_.first_call = NcclCommunicator::kCallsToJoin;
    nccl_.zeros_of_the_tree = false;
  }
  void NeedGpus(int count) {
    if (!IsSkipped() && nccl_.ranks_max < count) GTEST_SKIP() << "needs " << count << " GPUs";
  }
  Implementation nccl_;
};

TEST_F(NcclGpu, Reductions) { CheckReductions(nccl_); }
TEST_F(NcclGpu, Roots) { CheckRoots(nccl_); }
TEST_F(NcclGpu, PartsOfUnequalSizes) { CheckUnequalParts(nccl_); }
TEST_F(NcclGpu, LongSumsOfEachType) {
  const int size = nccl_.ranks_max;
  const auto group = nccl_.make(size);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
                            DType::kInt32, DType::kInt64}) {
    CheckOneAllReduce(*group, size, dtype, 1045991, CollectiveAlgorithm::kAuto);
  }
}
TEST_F(NcclGpu, Barrier) {
  NeedGpus(2);
  if (!IsSkipped()) CheckBarrier(nccl_);
}
TEST_F(NcclGpu, ManyAtOnce) {
  NeedGpus(3);
  if (!IsSkipped()) CheckManyAtOnce(nccl_);
}
TEST_F(NcclGpu, SpecialValues) {
  NeedGpus(3);
  if (!IsSkipped()) CheckSpecialValues(nccl_);
}
TEST_F(NcclGpu, DifferentCallsEndTheGroupWithBothInWords) {
  NeedGpus(2);
  if (!IsSkipped()) CheckMismatch(nccl_);
}
TEST_F(NcclGpu, AbortsReachAllRanks) {
  NeedGpus(3);
  if (!IsSkipped()) CheckAbort(nccl_);
}
TEST_F(NcclGpu, FailureAfterSomeCalls) {
  NeedGpus(4);
  if (!IsSkipped()) CheckFailureAfterSomeCalls(nccl_);
}
TEST_F(NcclGpu, CallsThatTakeTooLongNameWhoIsMissing) {
  NeedGpus(3);
  if (!IsSkipped()) CheckTimeout(nccl_);
}

}  // namespace
}  // namespace cohort
