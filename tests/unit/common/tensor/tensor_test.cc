#include "common/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace cohort {
namespace {

using ::testing::ElementsAre;

// Numbers of onnx.TensorProto.DataType and names and sizes of NumPy.
TEST(DType, NumbersNamesAndSizes) {
  struct Row {
    int32_t number;
    const char* name;
    size_t size;
  };
  for (const Row& row : {Row{1, "float32", 4},
                         {2, "uint8", 1},
                         {3, "int8", 1},
                         {6, "int32", 4},
                         {7, "int64", 8},
                         {9, "bool", 1},
                         {10, "float16", 2},
                         {11, "float64", 8},
                         {16, "bfloat16", 2}}) {
    const auto dtype = DTypeFromNumber(row.number);
    ASSERT_TRUE(dtype.ok()) << row.number;
    EXPECT_EQ(static_cast<int32_t>(*dtype), row.number);
    EXPECT_EQ(DTypeName(*dtype), row.name);
    EXPECT_EQ(*DTypeFromName(row.name), *dtype);
    EXPECT_EQ(ElementSize(*dtype), row.size);
  }
}

TEST(DType, RefusesWhatItDoesNotKnow) {
  for (const int32_t number : {-1, 0, 4, 8, 17, 1000}) {
    EXPECT_EQ(DTypeFromNumber(number).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(DTypeFromName("float").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DTypeFromName("undefined").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ElementSize(DType::kUndefined), 0u);
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}.num_elements()), 24);
  EXPECT_EQ((Shape{2, 0, 4}.num_elements()), 0);
  EXPECT_EQ((Shape{2, 3, 4}.row_elements()), 12);
  EXPECT_EQ((Shape{7}.row_elements()), 1);
  EXPECT_EQ(Shape().row_elements(), 1);
}

TEST(Shape, ComparesAndPrints) {
  EXPECT_EQ((Shape{128, 784}.ToString()), "[128,784]");
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ((Shape{1, 2}), (Shape{1, 2}));
  EXPECT_NE((Shape{1, 2}), (Shape{2, 1}));
  EXPECT_NE((Shape{1}), (Shape{1, 1}));
}

TEST(Tensor, HasNoValueAtFirst) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.has_value());
  EXPECT_EQ(tensor.num_bytes(), 0u);
  EXPECT_EQ(tensor.raw(), nullptr);
}

TEST(Tensor, HoldsValues) {
  const Tensor tensor = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  EXPECT_EQ(tensor.TypeString(), "float32[2,3]");
  EXPECT_EQ(tensor.num_bytes(), 24u);
  EXPECT_THAT(tensor.span<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Tensor::Scalar<int64_t>(7).data<int64_t>()[0], 7);
  EXPECT_THAT(Tensor::Zeros(DType::kInt32, Shape{3}).span<int32_t>(), ElementsAre(0, 0, 0));
  EXPECT_EQ(Tensor::Scalar(true).dtype(), DType::kBool);
}

TEST(Tensor, BuffersAreAlignedTo64Bytes) {
  for (const int64_t count : {0, 1, 17, 1000}) {
    const Tensor tensor(DType::kFloat32, Shape{count});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % 64, 0u);
  }
}

TEST(Tensor, ACopySharesAndACloneDoesNot) {
  Tensor tensor = Tensor::FromVector<int32_t>({1, 2}, Shape{2});
  const Tensor copy = tensor;
  const Tensor clone = tensor.Clone();
  tensor.mutable_data<int32_t>()[0] = 9;
  EXPECT_THAT(copy.span<int32_t>(), ElementsAre(9, 2));
  EXPECT_THAT(clone.span<int32_t>(), ElementsAre(1, 2));
}

TEST(Tensor, RowsAreAView) {
  Tensor tensor = Tensor::FromVector<int32_t>({1, 2, 3, 4, 5, 6}, Shape{3, 2});
  const Tensor rows = tensor.Rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(rows.span<int32_t>(), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(rows.buffer(), tensor.buffer());
  EXPECT_THAT(rows.Rows(1, 1).span<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(tensor.Rows(3, 0).num_elements(), 0);
  EXPECT_THAT(rows.Clone().span<int32_t>(), ElementsAre(3, 4, 5, 6));
  tensor.mutable_data<int32_t>()[2] = 30;
  EXPECT_EQ(rows.span<int32_t>()[0], 30);
}

TEST(Tensor, ReshapedKeepsTheBytes) {
  const Tensor tensor = Tensor::FromVector<int32_t>({1, 2, 3, 4}, Shape{4});
  const Tensor square = tensor.Reshaped(Shape{2, 2});
  EXPECT_EQ(square.TypeString(), "int32[2,2]");
  EXPECT_EQ(square.raw(), tensor.raw());
}

TEST(Tensor, AnEmptyTensorIsAValue) {
  const Tensor tensor(DType::kFloat32, Shape{0, 5});
  EXPECT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor.num_bytes(), 0u);
  EXPECT_EQ(tensor.Clone().shape(), (Shape{0, 5}));
  EXPECT_TRUE(tensor.span<float>().empty());
}

TEST(TensorDeathTest, ProgrammerErrorsStopTheProgram) {
  const Tensor tensor = Tensor::FromVector<float>({1, 2}, Shape{2});
  EXPECT_DEATH(tensor.data<int32_t>(), "wrong element type");
  EXPECT_DEATH(tensor.Rows(1, 2), "the rows lie inside the tensor");
  EXPECT_DEATH(tensor.Reshaped(Shape{3}), "keeps the number of elements");
  EXPECT_DEATH(Tensor::FromVector<float>({1}, Shape{2}), "as many values as elements");
  EXPECT_DEATH(Tensor(DType::kFloat32, Shape{2}, Buffer::Allocate(8), 4), "inside its buffer");
}

}  // namespace
}  // namespace cohort
