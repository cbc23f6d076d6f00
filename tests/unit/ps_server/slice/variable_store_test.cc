#include "ps_server/slice/variable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Status Admit() { return absl::OkStatus(); }

class VariableStoreTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<uint32_t>> Create(const std::vector<proto::VariableLayout>& layouts) {
    return store_.Create(CreateRequest(layouts).variables(), Admit);
  }
  const std::vector<proto::VariableLayout> layouts_ =
      LayOut({{"a", DType::kFloat32, Shape{10, 4}}, {"b", DType::kFloat32, Shape{}}}, 2);
  VariableStore store_{{.ps = 1, .resident_bytes_max = 1000}};
};

TEST_F(VariableStoreTest, TakesItsOwnSlicesOnceAndKeepsTheirValues) {
  EXPECT_THAT(*Create(layouts_), ElementsAre(2u));
  EXPECT_THAT(*Create(layouts_), IsEmpty());
  VariableSlice* const shard = (*store_.Find({2}))[0];
  EXPECT_EQ(shard->layout().rows, (RowRange{5, 5}));
  EXPECT_EQ(store_.All().size(), 1u);
}

TEST_F(VariableStoreTest, ALayoutThatDiffersPrintsBoth) {
  ASSERT_TRUE(Create(layouts_).ok());
  const auto other = LayOut({{"a", DType::kFloat32, Shape{12, 4}}}, 2);
  const absl::Status status = Create(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slice 2: a float32[10,4] rows 5 to 9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("slice 2: a float32[12,4] rows 6 to 11"));
  auto moved = layouts_;
  moved[0].mutable_slices(1)->set_ps(0);
  EXPECT_FALSE(Create(moved).ok()) << "the slice would have two homes";
}

TEST_F(VariableStoreTest, NothingIsMadeWhenAnyLayoutIsWrong) {
  auto layouts = layouts_;
  layouts[1].mutable_slices(0)->set_slice_id(1);
  EXPECT_THAT(std::string(Create(layouts).status().message()), HasSubstr("slice id 1"));
  layouts = layouts_;
  layouts[1].set_name("a");
  EXPECT_THAT(std::string(Create(layouts).status().message()), HasSubstr("'a' occurs twice"));
  EXPECT_TRUE(store_.All().empty());
}

TEST_F(VariableStoreTest, StaysBelowTheMemoryLimit) {
  ASSERT_TRUE(Create(layouts_).ok());
  const auto huge = LayOut({{"a", DType::kFloat32, Shape{10, 4}},
                            {"b", DType::kFloat32, Shape{}},
                            {"c", DType::kFloat32, Shape{int64_t{1} << 40, 64}}},
                           2);
  const absl::Status status = Create(huge).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ClassOf(status), proto::CONFIGURATION);
  const auto more = LayOut({{"a", DType::kFloat32, Shape{10, 4}},
                            {"b", DType::kFloat32, Shape{}},
                            {"c", DType::kFloat32, Shape{2, 240}}},
                           2);
  EXPECT_FALSE(Create(more).ok()) << "80 + 960 bytes";
  EXPECT_EQ(store_.All().size(), 1u);
}

TEST_F(VariableStoreTest, AnUnknownSliceIsPsLostOnlyWhenTheStoreIsEmpty) {
  const absl::Status empty = store_.Find({2}).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ClassOf(empty), proto::PS_LOST);
  ASSERT_TRUE(Create(layouts_).ok());
  EXPECT_EQ(ClassOf(store_.Find({2, 9}).status()), proto::APPLICATION);
}

TEST_F(VariableStoreTest, ARefusedCreationLeavesNothing) {
  const auto refuse = [] { return absl::FailedPreconditionError("stale"); };
  EXPECT_FALSE(store_.Create(CreateRequest(layouts_).variables(), refuse).ok());
  EXPECT_TRUE(store_.All().empty());
}

}  // namespace
}  // namespace cohort
