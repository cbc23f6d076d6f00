// Expectations are TensorFlow's (tensorflow/python/distribute/sharded_variable_test.py and the
// formulas in sharded_variable.py).

#include "coordinator/strategy/partitioner.h"

#include <memory>
#include <string>
#include <vector>

#include "common/tensor/slice_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Parts(const PartitionerSpec& spec, const Shape& shape,
                           DType dtype = DType::kFloat32) {
  absl::StatusOr<std::unique_ptr<const Partitioner>> partitioner = MakePartitioner(spec);
  EXPECT_TRUE(partitioner.ok()) << partitioner.status();
  absl::StatusOr<std::vector<int64_t>> parts = (*partitioner)->Partition(dtype, shape);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return parts.value_or(std::vector<int64_t>{});
}

std::vector<int64_t> RowCounts(int64_t rows, int64_t slices) {
  std::vector<int64_t> counts;
  for (const RowRange& range : DivRows(rows, slices)) counts.push_back(range.count);
  return counts;
}

MinSizePartitionerSpec Min(int64_t bytes, int64_t max_shards) {
  MinSizePartitionerSpec spec;
  spec.min_shard_bytes = bytes;
  spec.max_shards = max_shards;
  return spec;
}

MinSizePartitionerSpec StrictMin(int64_t bytes, int64_t max_shards) {
  MinSizePartitionerSpec spec = Min(bytes, max_shards);
  spec.strict_minimum = true;
  return spec;
}

MaxSizePartitionerSpec Max(int64_t bytes) {
  MaxSizePartitionerSpec spec;
  spec.max_shard_bytes = bytes;
  return spec;
}

MaxSizePartitionerSpec Max(int64_t bytes, int64_t max_shards) {
  MaxSizePartitionerSpec spec = Max(bytes);
  spec.max_shards = max_shards;
  return spec;
}

TEST(Partitioner, FixedShardsIsCappedByTheRows) {
  EXPECT_THAT(Parts(FixedShardsPartitionerSpec{2}, {10, 4}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(FixedShardsPartitionerSpec{8}, {3, 4, 5}), ElementsAre(3, 1, 1));
}

TEST(Partitioner, MinSizeGoldenVectors) {
  EXPECT_THAT(Parts(Min(4, 2), {6, 1}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(Min(4, 10), {6, 1}), ElementsAre(6, 1));
  EXPECT_THAT(Parts(Min(256 << 10, 2), {1024, 1024}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(Min(256 << 10, 100), {1024, 1024}), ElementsAre(16, 1));
  EXPECT_THAT(Parts(Min(256 << 10, 8), {3, 1000000}), ElementsAre(3, 1));
  EXPECT_THAT(Parts(Min(256 << 10, 8), {2, 2}), ElementsAre(1, 1));
}

TEST(Partitioner, MinSizeRoundsUpAsTensorFlowDoesSoShardsMayBeSmaller) {
  // 300 KiB over 2: 152 KiB and 148 KiB, both below the 256 KiB asked for.
  EXPECT_THAT(Parts(Min(256 << 10, 8), {75, 1024}), ElementsAre(2, 1));
  EXPECT_THAT(RowCounts(75, 2), ElementsAre(38, 37));
}

TEST(Partitioner, StrictMinimumIsTheLargestCountThatKeepsEveryShardLargeEnough) {
  EXPECT_THAT(Parts(StrictMin(256 << 10, 8), {75, 1024}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(StrictMin(256 << 10, 100), {1024, 1024}), ElementsAre(16, 1));
  for (int64_t rows = 1; rows <= 40; ++rows) {
    for (int64_t min_bytes = 1; min_bytes <= 100; ++min_bytes) {
      int64_t expected = 1;
      for (int64_t n = 2; n <= rows; ++n) {
        const int64_t smallest_shard_bytes = (rows / n) * 3 * 4;
        if (smallest_shard_bytes >= min_bytes) expected = n;
      }
      EXPECT_THAT(Parts(StrictMin(min_bytes, 1000), {rows, 3}), ElementsAre(expected, 1))
          << rows << " rows, at least " << min_bytes << " bytes";
    }
  }
}

TEST(Partitioner, MaxSizeGoldenVectors) {
  EXPECT_THAT(Parts(Max(4), {6, 1}), ElementsAre(6, 1));
  EXPECT_THAT(Parts(Max(4, 2), {6, 1}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(Max(1024), {6, 1}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(Max(25600), {1000, 64}), ElementsAre(10, 1));
  EXPECT_THAT(Parts(Max(25600, 3), {1000, 64}), ElementsAre(3, 1));
  EXPECT_THAT(RowCounts(1000, 3), ElementsAre(334, 333, 333));
  EXPECT_THAT(Parts(Max(100), {1000, 64}), ElementsAre(1000, 1));
  EXPECT_THAT(Parts(Max(700), {10, 64}), ElementsAre(5, 1));
  EXPECT_THAT(RowCounts(10, 5), ElementsAre(2, 2, 2, 2, 2));
  EXPECT_THAT(Parts(Max(12), {7, 1}), ElementsAre(3, 1));
  EXPECT_THAT(RowCounts(7, 3), ElementsAre(3, 2, 2));
}

TEST(Partitioner, DivRuleGoldenVectors) {
  EXPECT_THAT(RowCounts(13, 5), ElementsAre(3, 3, 3, 2, 2));
  EXPECT_THAT(RowCounts(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(RowCounts(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(RowCounts(3, 4), ElementsAre(1, 1, 1));
}

TEST(Partitioner, SizesCountTheElementType) {
  EXPECT_THAT(Parts(Max(8), {6}, DType::kInt64), ElementsAre(6));
  EXPECT_THAT(Parts(Max(8), {6}, DType::kUint8), ElementsAre(1));
}

TEST(Partitioner, ArgumentsBelowOneAreErrorsThatNameThem) {
  MinSizePartitionerSpec strings;
  strings.bytes_per_string = 0;
  const std::vector<std::pair<PartitionerSpec, std::string>> cases = {
      {FixedShardsPartitionerSpec{0}, "num_shards is 0"},
      {Min(0, 1), "min_shard_bytes is 0"},
      {Min(4, -3), "max_shards is -3"},
      {strings, "bytes_per_string is 0"},
      {Max(-1), "max_shard_bytes is -1"},
      {Max(4, 0), "max_shards is 0"},
  };
  for (const auto& [spec, message] : cases) {
    const absl::Status status = MakePartitioner(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(Partitioner, ScalarsUnknownDimensionsAndTooManyBytesAreErrors) {
  for (const PartitionerSpec& spec :
       std::vector<PartitionerSpec>{FixedShardsPartitionerSpec{2}, Min(4, 2), Max(4)}) {
    const std::unique_ptr<const Partitioner> partitioner = *MakePartitioner(spec);
    EXPECT_THAT(std::string(partitioner->Partition(DType::kFloat32, {}).status().message()),
                HasSubstr("no axis 0"));
    EXPECT_THAT(std::string(partitioner->Partition(DType::kFloat32, {-1, 3}).status().message()),
                HasSubstr("[-1,3]"));
    // A row of 2^64 bytes, whose size would count as 0.
    const Shape large{3, int64_t{1} << 62};
    EXPECT_THAT(std::string(partitioner->Partition(DType::kFloat32, large).status().message()),
                HasSubstr("[3,4611686018427387904] has more than 2^63 bytes"));
  }
}

}  // namespace
}  // namespace cohort
