#include "worker/collective/plan/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

using testing::ElementsAre;

std::vector<BucketItem> Floats(const std::vector<int64_t>& elements) {
  std::vector<BucketItem> items;
  for (const int64_t count : elements) {
    items.push_back({absl::StrCat("v", items.size()), DType::kFloat32, count});
  }
  return items;
}

std::vector<std::vector<size_t>> ItemsOf(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<size_t>> items;
  for (const Bucket& bucket : buckets) items.push_back(bucket.items);
  return items;
}

// cross_device_utils.group_by_size over the reversed gradients: `if not packs or last_pack_size >
// bytes_per_pack: packs.append([])`.
TEST(BucketPlan, PacksAsTensorFlowDoes) {
  // 40 bytes each: a pack of 80 is not over 80 yet, one of 120 is.
  EXPECT_THAT(ItemsOf(PlanBuckets(Floats({10, 10, 10, 10, 10}), {80})),
              ElementsAre(ElementsAre(4, 3, 2), ElementsAre(1, 0)));
  EXPECT_THAT(ItemsOf(PlanBuckets(Floats({1, 1000, 1, 1}), {4})),
              ElementsAre(ElementsAre(3, 2), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(ItemsOf(PlanBuckets(Floats({10, 10}), {1 << 20})), ElementsAre(ElementsAre(1, 0)));
}

TEST(BucketPlan, TheFirstIsSmallByItself) {
  const int64_t half_mib = (int64_t{1} << 19) / 4 + 1;
  const auto buckets = PlanBuckets(Floats(std::vector<int64_t>(16, half_mib)), {});
  EXPECT_THAT(ItemsOf(buckets),
              ElementsAre(ElementsAre(15, 14), ElementsAre(13, 12, 11, 10, 9, 8, 7, 6),
                          ElementsAre(5, 4, 3, 2, 1, 0)));
  EXPECT_THAT(buckets[0].offsets, ElementsAre(0, half_mib));
}

TEST(BucketPlan, TypesHaveBucketsOfTheirOwn) {
  const std::vector<BucketItem> items = {{"a", DType::kFloat32, 10},
                                         {"b", DType::kBfloat16, 10},
                                         {"c", DType::kFloat32, 10},
                                         {"d", DType::kBfloat16, 10}};
  const auto buckets = PlanBuckets(items, {1 << 20});
  // The one that is whole first starts first.
  EXPECT_THAT(ItemsOf(buckets), ElementsAre(ElementsAre(3, 1), ElementsAre(2, 0)));
  EXPECT_EQ(buckets[0].dtype, DType::kBfloat16);
  EXPECT_NE(buckets[0].layout, buckets[1].layout);
  EXPECT_NE(buckets[1].layout, PlanBuckets(Floats({10, 10}), {1 << 20})[0].layout);
}

// Gradients of all ranks in buckets of any size, summed by any algorithm that is not the ring, have
// the bits that they have alone.
TEST(BucketPlan, NoBucketSizeChangesABit) {
  const uint64_t first = TestSeed(1);
  const std::vector<BucketItem> items = Floats({3, 700, 64, 5000, 1, 90, 16000});
  constexpr int kSize = 3;
  std::vector<Bytes> alone;  // by item
  for (uint64_t seed = first; seed < first + 12; ++seed) {
    SCOPED_TRACE(Replay("collective_test", seed, "BucketPlan.NoBucketSizeChangesABit"));
    LaneGroupSpec spec;
    spec.size = kSize;
    LaneRanks ranks(std::make_shared<SimLaneWorld>(seed, kSize), spec);
    const bool one_each = seed == first;
    const int64_t bytes = one_each ? 1 : static_cast<int64_t>(SequenceRng(seed).Below(100000)) + 1;
    for (const Bucket& bucket : PlanBuckets(items, {bytes})) {
      std::vector<Bytes> inputs(kSize);
      for (int rank = 0; rank < kSize; ++rank) {
        for (const size_t item : bucket.items) {
          const Bytes part = RandomInput(DType::kFloat32, ReduceOp::kSum, items[item].elements,
                                         100 * item + static_cast<size_t>(rank));
          Bytes& input = inputs[static_cast<size_t>(rank)];
          input.insert(input.end(), part.begin(), part.end());
        }
      }
      CollectiveCall call;
      call.op = CollectiveOp::kAllReduce;
      call.reduce = ReduceOp::kMean;
      call.count = bucket.elements;
      call.layout = bucket.layout;
      const GroupResult result = RunGroup(ranks, CallsOf(kSize, call), inputs, Place::kInPlace, 0);
      for (size_t i = 0; i < bucket.items.size(); ++i) {
        const size_t item = bucket.items[i];
        const auto begin = result.outputs[1].begin() + bucket.offsets[i] * 4;
        const Bytes got(begin, begin + items[item].elements * 4);
        if (alone.size() <= item) alone.resize(item + 1);
        if (alone[item].empty()) alone[item] = got;
        ASSERT_EQ(got, alone[item]) << items[item].name << " in packs of " << bytes << " bytes";
      }
    }
  }
}

}  // namespace
}  // namespace cohort
