#include "worker/ps_client/transfer_plan.h"

#include <algorithm>
#include <numeric>

#include "common/tensor/slice_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

proto::VariableLayout Layout(std::vector<int64_t> dims,
                             std::vector<std::pair<int64_t, int64_t>> rows) {
  proto::VariableLayout layout;
  layout.set_name("v");
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  for (const int64_t dim : dims) layout.add_dims(dim);
  uint32_t id = 10;
  for (const auto& [begin, count] : rows) {
    proto::SliceHome& slice = *layout.add_slices();
    slice.set_slice_id(id++);
    slice.set_row_begin(begin);
    slice.set_row_count(count);
    slice.set_ps(1 - id % 2);
  }
  return layout;
}

TEST(TransferPlan, PutsSlicesToTheirHomesAndRows) {
  const proto::VariableLayout matrix = Layout({5, 2}, {{0, 2}, {2, 2}, {4, 1}});
  const proto::VariableLayout scalar = Layout({}, {{0, 1}});
  const TransferPlan plan = *MakeTransferPlan({&matrix, &scalar}, {});
  ASSERT_EQ(plan.by_ps.size(), 2u);
  EXPECT_EQ(plan.num_slices, 4u);
  size_t ordinal = 0;
  for (const PsTransfer& home : plan.by_ps) {
    size_t bytes = 0;
    for (const SliceTransfer& slice : home.slices) {
      EXPECT_EQ(slice.ordinal, ordinal++);
      bytes += slice.bytes;
    }
    EXPECT_EQ(home.bytes, bytes);
  }
  EXPECT_EQ(plan.by_ps[0].ps, 0u);
  EXPECT_EQ(plan.by_ps[0].slices[0].slice_id, 10u);
  EXPECT_EQ(plan.by_ps[0].slices[1].offset, 4u * 2 * 4);
  EXPECT_EQ(plan.by_ps[0].slices[1].shape, (Shape{1, 2}));
  EXPECT_EQ(plan.by_ps[0].slices[2].shape, Shape{});
  EXPECT_EQ(plan.by_ps[1].slices[0].offset, 2u * 2 * 4);
  EXPECT_EQ(plan.by_ps[1].slices[0].bytes, 2u * 2 * 4);
}

// A home is called as often as it takes, with as many whole slices as a call has room for.
TEST(TransferPlan, NamesAHomeOncePerCall) {
  const proto::VariableLayout first = Layout({8, 1}, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 4}});
  const proto::VariableLayout second = Layout({7, 1}, {{0, 7}});
  const proto::VariableLayout table = Layout({4, 1}, {{0, 2}, {2, 2}});
  proto::VariableLayout named = table;
  named.set_name("t");
  const TransferPlan plan = *MakeTransferPlan({&first, &second, &named}, {"t"}, 8);
  // ps:0 has slices of 1, 1, 4 and 7 rows, each of 4 bytes, and ps:1 two of 1.
  ASSERT_EQ(plan.by_ps.size(), 4u);
  const std::vector<std::vector<size_t>> bytes = {{4, 4}, {16}, {28}, {4, 4}};
  size_t ordinal = 0;
  for (size_t call = 0; call < plan.by_ps.size(); ++call) {
    EXPECT_EQ(plan.by_ps[call].ps, call < 3 ? 0u : 1u);
    ASSERT_EQ(plan.by_ps[call].slices.size(), bytes[call].size()) << call;
    size_t sum = 0;
    for (size_t i = 0; i < bytes[call].size(); ++i) {
      EXPECT_EQ(plan.by_ps[call].slices[i].bytes, bytes[call][i]);
      EXPECT_EQ(plan.by_ps[call].slices[i].ordinal, ordinal++);
      sum += bytes[call][i];
    }
    EXPECT_EQ(plan.by_ps[call].bytes, sum);
    // Rows go with a home's first call.
    const bool first_call = call == 0 || call == 3;
    ASSERT_EQ(plan.by_ps[call].row_slices.size(), first_call ? 1u : 0u);
    for (const RowSlice& slice : plan.by_ps[call].row_slices) EXPECT_EQ(slice.ordinal, ordinal++);
  }
  EXPECT_EQ(plan.num_slices, ordinal);
}

TEST(TransferPlan, ACallIsFilledUpToItsLimit) {
  const proto::VariableLayout layout =
      Layout({6, 1}, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}});
  const TransferPlan plan = *MakeTransferPlan({&layout}, {}, 11);
  // Three slices of 4 bytes on each of two servers.
  ASSERT_EQ(plan.by_ps.size(), 4u);
  EXPECT_EQ(plan.by_ps[0].slices.size(), 2u);
  EXPECT_EQ(plan.by_ps[1].slices.size(), 1u);
  EXPECT_EQ(plan.by_ps[1].ps, 0u);
}

TEST(TransferPlan, RowsWithoutWholeSlicesAreOneCall) {
  const proto::VariableLayout table = Layout({4, 1}, {{0, 2}, {2, 2}});
  EXPECT_EQ(MakeTransferPlan({&table}, {"v"}, 1)->by_ps.size(), 2u);
}

TEST(TransferPlan, RefusesSlicesThatDoNotCover) {
  const struct {
    proto::VariableLayout layout;
    const char* says;
  } cases[] = {
      {Layout({5}, {{0, 2}, {3, 2}}), "row 2 of 5 is next"},
      {Layout({5}, {{0, 2}, {1, 4}}), "row 2 of 5 is next"},
      {Layout({5}, {{0, 2}, {2, 4}}), "row 2 of 5 is next"},
      {Layout({5}, {{0, 2}, {2, 2}}), "end at row 4 of 5"},
      {Layout({5}, {{0, 0}}), "row 0 of 5 is next"},
      {Layout({5}, {}), "end at row 0 of 5"},
      {Layout({-5}, {{0, 1}}), "bad extent -5"},
      {Layout({1 << 30, 1 << 30, 1 << 30}, {{0, 1}}), "bad extent"},
  };
  for (const auto& c : cases) {
    const absl::Status status = MakeTransferPlan({&c.layout}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.says;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
  }
}

TEST(TransferPlan, KeysOfADynamicTableGoToTheSliceOfTheirBucket) {
  proto::VariableLayout table = Layout({kKeyBuckets, 2}, {{0, 20000}, {20000, 45536}});
  table.mutable_dynamic();
  const TransferPlan plan = *MakeTransferPlan({&table}, {"v"});
  std::vector<int64_t> keys(100);
  std::iota(keys.begin(), keys.end(), -50);
  std::sort(keys.begin(), keys.end(),
            [](int64_t a, int64_t b) { return KeyBucket(a) < KeyBucket(b); });
  size_t next = 0;
  for (const size_t ps : {0, 1}) {
    const RowSlice& slice = plan.by_ps[ps].row_slices[0];
    const RowRun run = RowsOfSlice(keys, slice);
    EXPECT_EQ(run.begin, next);
    for (size_t i = 0; i < run.count; ++i) {
      EXPECT_EQ(KeyBucket(keys[run.begin + i]) < 20000, ps == 0);
    }
    next += run.count;
  }
  EXPECT_EQ(next, keys.size());
  EXPECT_THAT(std::string(MakeTransferPlan({&table}, {}).status().message()),
              HasSubstr("a dynamic table has no whole value"));
}

}  // namespace
}  // namespace cohort
