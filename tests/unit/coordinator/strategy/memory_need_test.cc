#include "coordinator/strategy/memory_need.h"

#include <limits>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

struct Piece {
  int64_t rows = 0;
  uint32_t ps = 0;
};

proto::VariableLayout Layout(int64_t width, const char* rule, const std::vector<Piece>& pieces) {
  proto::VariableLayout layout;
  layout.set_name("w");
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  layout.mutable_rule()->set_op(rule);
  int64_t row = 0;
  for (const Piece& piece : pieces) {
    proto::SliceHome& slice = *layout.add_slices();
    slice.set_row_begin(row);
    slice.set_row_count(piece.rows);
    slice.set_ps(piece.ps);
    row += piece.rows;
  }
  layout.add_dims(row);
  layout.add_dims(width);
  return layout;
}

TEST(MemoryNeeds, CountValuesAndSlotsByHome) {
  const auto needs = MemoryNeeds({{Layout(10, "sgd", {{3, 0}, {2, 2}})}}, {0, 2});
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_EQ(needs.at(0).values, 120);
  EXPECT_EQ(needs.at(0).resident, 120);
  EXPECT_EQ(needs.at(2).resident, 80);
  EXPECT_EQ(needs.at(2).in_training(), 160);
  // Adam has two slots.
  EXPECT_EQ(MemoryNeeds({{Layout(10, "adam", {{3, 0}})}}, {0}).at(0).resident, 360);
}

TEST(MemoryNeeds, OfMirroredVariablesAreOnEachHome) {
  proto::VariableLayout layout = Layout(10, "sgd", {{3, 1}});
  layout.set_mirrored(true);
  const auto needs = MemoryNeeds({{layout}}, {1, 4});
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_EQ(needs.at(1).resident, 120);
  EXPECT_EQ(needs.at(4).resident, 120);
}

TEST(MemoryNeeds, EndAtTheLargestNumber) {
  proto::VariableLayout layout = Layout(10, "adam", {{3, 0}});
  layout.set_dims(1, int64_t{1} << 61);
  const auto needs = MemoryNeeds({{layout, layout}}, {0});
  EXPECT_EQ(needs.at(0).resident, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(needs.at(0).in_training(), std::numeric_limits<int64_t>::max());
  // Here the value alone fits, and its slots do not.
  layout.set_dims(1, int64_t{1} << 59);
  const auto with_slots = MemoryNeeds({{layout}}, {0});
  EXPECT_EQ(with_slots.at(0).values, 12 * (int64_t{1} << 59));
  EXPECT_EQ(with_slots.at(0).resident, std::numeric_limits<int64_t>::max());
}

TEST(CheckMemory, NamesEachHomeItsNeedAndItsLimit) {
  const std::map<int, MemoryNeed> needs = {{0, {100, 50}}, {1, {101, 50}}, {2, {900, 50}}};
  EXPECT_TRUE(CheckMemory(needs, {Role::kPs, {{0, 100}, {1, 101}}}).ok());
  const absl::Status refused = CheckMemory(needs, {Role::kPs, {{0, 100}, {1, 100}, {2, 899}}});
  EXPECT_EQ(ClassOf(refused), proto::CONFIGURATION);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("ps:1 needs 101 bytes of memory for its variables and their slots, and may "
                        "have 100; ps:2 needs 900"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("more parameter servers"));
}

TEST(CheckMemory, HomesOfOneMachineHaveItTogether) {
  const std::map<int, MemoryNeed> needs = {{0, {100, 50}}, {1, {101, 50}}};
  MemoryLimits limits{Role::kPs, {{0, 201}, {1, 201}}, true};
  EXPECT_TRUE(CheckMemory(needs, limits).ok());
  limits.bytes[1] = 200;
  EXPECT_THAT(std::string(CheckMemory(needs, limits).message()),
              HasSubstr("need 201 bytes of memory together"));
  limits.shared = false;
  EXPECT_TRUE(CheckMemory(needs, limits).ok());
}

}  // namespace
}  // namespace cohort
