// On GPUs: a rank for each, up to 8. Skipped where there is none (tests/gpu.sh runs these).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/gpus.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/nccl/nccl_groups.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/collective/nccl/nccl_local_group.h"

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
    table_ = table;
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
  const NcclTable* table_ = nullptr;
};

// A GPU's memory, through the table of NCCL.
class GpuFloats {
 public:
  GpuFloats(const NcclTable& table, int32_t gpu, const std::vector<float>& values)
      : table_(table), bytes_(values.size() * sizeof(float)) {
    EXPECT_EQ(table.open(table.self, gpu, &context_), kNcclDone);
    void* memory = nullptr;
    EXPECT_EQ(table.allocate_device(context_, bytes_, &memory), kNcclDone);
    EXPECT_EQ(table.copy_to_device(context_, memory, values.data(), bytes_), kNcclDone);
    EXPECT_EQ(table.stream_wait(context_), kNcclDone);
    memory_ = static_cast<float*>(memory);
  }
  ~GpuFloats() {
    table_.free_device(context_, memory_);
    table_.close(context_);
  }
  GpuFloats(const GpuFloats&) = delete;
  GpuFloats& operator=(const GpuFloats&) = delete;

  float* get() { return memory_; }
  std::vector<float> Read() {
    std::vector<float> values(bytes_ / sizeof(float));
    EXPECT_EQ(table_.copy_to_host(context_, values.data(), memory_, bytes_), kNcclDone);
    EXPECT_EQ(table_.stream_wait(context_), kNcclDone);
    return values;
  }

 private:
  const NcclTable& table_;
  const size_t bytes_;
  NcclContext* context_ = nullptr;
  float* memory_ = nullptr;
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
// Of whole numbers, whose sums are the same in any order. It is joined anew, too.
TEST_F(NcclGpu, GpusOfOneProcessAddUpOnTheFirst) {
  constexpr int64_t kCount = 1000003;
  std::vector<int32_t> gpus;
  std::vector<std::unique_ptr<GpuFloats>> values;
  std::vector<const float*> places;
  float scale = 0;
  std::vector<float> numbers(kCount);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 4096);
  for (int32_t gpu = 0; gpu < nccl_.ranks_max; ++gpu) {
    std::vector<float> own = numbers;
    for (float& number : own) number *= static_cast<float>(gpu + 1);
    scale += static_cast<float>(gpu + 1);
    gpus.push_back(gpu);
    values.push_back(std::make_unique<GpuFloats>(*table_, gpu, own));
    places.push_back(values.back()->get());
  }
  for (int time = 0; time < 2; ++time) {
    const auto group = NcclLocalGroup::Open(*table_, gpus);
    ASSERT_TRUE(group.ok()) << group.status();
    GpuFloats sum(*table_, 0, std::vector<float>(kCount));
    for (int step = 0; step < 3; ++step) {
      const absl::Status added = (*group)->Sum(places, kCount, sum.get());
      ASSERT_TRUE(added.ok()) << added;
    }
    const std::vector<float> got = sum.Read();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], scale * numbers[i]) << i;
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
