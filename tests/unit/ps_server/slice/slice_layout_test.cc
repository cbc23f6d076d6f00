#include "ps_server/slice/slice_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

proto::VariableLayout Kernel() {
  return LayOut({{"dense/kernel", DType::kFloat32, Shape{13, 4}, Rule("adam", {}), "zeros"}}, 5)[0];
}

TEST(SliceLayout, CutsAVariable) {
  const std::vector<SliceLayout> slices = *SlicesOf(Kernel());
  ASSERT_EQ(slices.size(), 5u);
  EXPECT_EQ(slices[3].rows, (RowRange{9, 2}));
  EXPECT_EQ(slices[3].shape(), (Shape{2, 4}));
  EXPECT_EQ(slices[3].ps, 3u);
  EXPECT_EQ(slices[3].resident_bytes(), 2u * 4 * 4 * 3) << "the value, m and v";
}

TEST(SliceLayout, AScalarIsOneSliceOfOneRow) {
  const std::vector<SliceLayout> slices =
      *SlicesOf(LayOut({{"b", DType::kFloat32, Shape{}, Rule("sgd", {}), "ones"}}, 3)[0]);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].shape(), Shape{});
}

TEST(SliceLayout, ErrorsNameTheVariableAndTheTrouble) {
  const auto message = [](const proto::VariableLayout& layout) {
    const auto slices = SlicesOf(layout);
    EXPECT_EQ(slices.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(slices.status().message());
  };
  proto::VariableLayout layout = Kernel();
  layout.mutable_slices(2)->set_row_begin(5);
  EXPECT_THAT(message(layout), HasSubstr("'dense/kernel': slice 3 has rows 5 + 3"));
  layout = Kernel();
  layout.mutable_slices()->RemoveLast();
  EXPECT_THAT(message(layout), HasSubstr("cover 11 of 13 rows"));
  layout.mutable_slices()->Clear();
  EXPECT_THAT(message(layout), HasSubstr("cover 0 of 13 rows"));
  layout = Kernel();
  layout.mutable_slices(0)->set_row_count(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(message(layout), HasSubstr("slice 1 has rows 0 + 9223372036854775807"));
  layout = Kernel();
  layout.mutable_slices(0)->set_row_count(0);
  EXPECT_THAT(message(layout), HasSubstr("slice 1 has rows 0 + 0"));
  layout = Kernel();
  layout.clear_name();
  EXPECT_THAT(message(layout), HasSubstr("no name"));
  layout = Kernel();
  layout.set_dtype(99);
  EXPECT_THAT(message(layout), HasSubstr("99"));
  layout.set_dtype(static_cast<int32_t>(DType::kInt64));
  EXPECT_THAT(message(layout), HasSubstr("'adam' does not fit int64"));
  layout = Kernel();
  layout.set_dims(0, -1);
  message(layout);
  layout.set_dims(0, int64_t{1} << 62);
  layout.set_dims(1, int64_t{1} << 62);
  message(layout);
  layout = Kernel();
  layout.mutable_rule()->set_op("adamant");
  EXPECT_THAT(message(layout), HasSubstr("adamant"));
  layout = Kernel();
  layout.mutable_initializer()->set_op("glorot");
  EXPECT_THAT(message(layout), HasSubstr("glorot"));
}

TEST(SliceLayout, ARuleOfTheWholeVariableHasOneSlice) {
  const auto cut = [](const std::string& op, int servers) {
    return SlicesOf(
        LayOut({{"k", DType::kFloat32, Shape{6, 4}, Rule(op, {}), "zeros"}}, servers)[0]);
  };
  for (const char* op : {"adafactor", "lamb", "muon"}) {
    EXPECT_TRUE(cut(op, 1).ok()) << op;
    EXPECT_THAT(std::string(cut(op, 2).status().message()),
                HasSubstr("computes with the whole variable, and it is in several slices"))
        << op;
  }
  EXPECT_TRUE(cut("lion", 2).ok());
  const SliceLayout adafactor = (*cut("adafactor", 1))[0];
  EXPECT_EQ(adafactor.rows_of(adafactor.rule_spec.slots[0]), (RowRange{0, 6}));
  EXPECT_EQ(adafactor.rows_of(adafactor.rule_spec.slots[1]), (RowRange{0, 4}));
  EXPECT_EQ(adafactor.shape_of(adafactor.rule_spec.slots[1]), (Shape{4}));
  EXPECT_EQ(adafactor.resident_bytes(), (24u + 6 + 4) * 4);
  proto::VariableLayout layout =
      LayOut({{"v", DType::kFloat32, Shape{6}, Rule("muon", {}), "zeros"}}, 1)[0];
  EXPECT_THAT(std::string(SlicesOf(layout).status().message()), HasSubstr("matrices"));
  *layout.mutable_rule() = Rule("lamb", {});
  layout.set_device("gpu:0");
  EXPECT_THAT(std::string(SlicesOf(layout).status().message()), HasSubstr("processor alone"));
}

TEST(SliceLayout, SameLayoutComparesEverythingButTheInitializer) {
  const SliceLayout base = (*SlicesOf(Kernel()))[0];
  SliceLayout other = base;
  other.initializer.seed = 99;
  EXPECT_TRUE(SameLayout(base, other));
  other.rule = Rule("adam", {{"beta_1", 0.5}});
  EXPECT_FALSE(SameLayout(base, other));
  other = base;
  other.rows = {0, 2};
  EXPECT_FALSE(SameLayout(base, other));
  other = base;
  other.variable = "dense/bias";
  EXPECT_FALSE(SameLayout(base, other));
}

}  // namespace
}  // namespace cohort
