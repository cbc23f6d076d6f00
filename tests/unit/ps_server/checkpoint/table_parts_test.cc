// The plan of a dynamic table's restore, from names and shapes of what was saved alone.

#include "ps_server/checkpoint/table_parts.h"

#include <gtest/gtest.h>

#include "tests/unit/ps_server/checkpoint/cut_cluster.h"

namespace cohort {
namespace {

constexpr int64_t kWidth = 3;

class TableParts : public testing::Test {
 protected:
  void SetUp() override {
    slices_ = *SlicesOf(LayOut({TableSpec("t", kWidth, Rule("sgd", {}))}, 2)[0]);
  }
  BundleTensors Saved(int64_t rows) {
    BundleTensors tensors;
    SavedTable empty;
    empty.state.stripes = Tensor(DType::kInt64, TableState::StripesShape());
    empty.state.sights = Tensor(DType::kUint8, Shape{0});
    empty.rows = {Tensor(DType::kInt64, Shape{rows}),
                  Tensor(DType::kInt32, Shape{rows, 2}),
                  Tensor(DType::kFloat32, Shape{rows, kWidth}),
                  {}};
    for (const SliceLayout& slice : slices_) {
      for (const PartTensor& tensor : TablePartsOf(slice, empty)) {
        tensors[tensor.name] = {tensor.value.dtype(), tensor.value.shape()};
      }
    }
    return tensors;
  }
  const RestoreSource source_ = {"/saved", true, false};
  std::vector<SliceLayout> slices_;
};

TEST_F(TableParts, LongTensorsAreCutAndAnEmptyTableHasAPartToo) {
  const int64_t in_part = kPartBytesMax / (kWidth * int64_t{sizeof(float)});
  EXPECT_EQ(Saved(0).size(), 2u * (3 + 3));
  const BundleTensors cut = Saved(in_part + 1);
  EXPECT_EQ(cut.size(), 2u * (3 + 2 * 3));
  EXPECT_EQ(cut.at("t/.COHORT_ROWS/0-32768/0/keys").shape, Shape{in_part});
  EXPECT_EQ(cut.at("t/.COHORT_ROWS/32768-65536/1/values").shape, (Shape{1, kWidth}));
  EXPECT_EQ(PlanTableParts(cut, source_, slices_[1])->size(), 2u + 2 * 3);
}

// A job that begins from a checkpoint counts anew, and checkpoints of earlier versions lack counts.
TEST_F(TableParts, CountsAreReadByACutThatHasThem) {
  RestoreSource cut = source_;
  cut.applied = true;
  BundleTensors tensors = Saved(4);
  EXPECT_EQ(PlanTableParts(tensors, cut, slices_[1])->size(), 3u + 3);
  EXPECT_EQ(PlanTableParts(tensors, source_, slices_[1])->size(), 2u + 3);
  tensors.erase("t/.COHORT_ROWS/32768-65536/counts");
  EXPECT_EQ(PlanTableParts(tensors, cut, slices_[1])->size(), 2u + 3);
  tensors["t/.COHORT_ROWS/32768-65536/counts"] = {DType::kInt64, Shape{2}};
  EXPECT_EQ(PlanTableParts(tensors, cut, slices_[1]).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TableParts, AMissingPartIsALossAndAnotherTypeAnotherModel) {
  BundleTensors tensors = Saved(4);
  tensors.erase("t/.COHORT_ROWS/32768-65536/0/keys");
  EXPECT_EQ(PlanTableParts(tensors, source_, slices_[0]).status().code(),
            absl::StatusCode::kDataLoss);
  tensors = Saved(4);
  tensors["t/.COHORT_ROWS/0-32768/0/values"].dtype = DType::kFloat16;
  EXPECT_EQ(PlanTableParts(tensors, source_, slices_[0]).status().code(),
            absl::StatusCode::kInvalidArgument);
  tensors = Saved(4);
  tensors["t/.COHORT_ROWS/0-32768/sights"] = {DType::kUint8, Shape{16, 2, 3}};
  EXPECT_EQ(PlanTableParts(tensors, source_, slices_[0]).status().code(),
            absl::StatusCode::kInvalidArgument);
  tensors = Saved(4);
  tensors.erase("t/.COHORT_ROWS/0-32768/stripes");
  EXPECT_EQ(PlanTableParts(tensors, source_, slices_[0]).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(PlanTableParts({}, source_, slices_[0]).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cohort
