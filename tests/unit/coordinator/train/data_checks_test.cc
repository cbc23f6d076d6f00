#include "coordinator/train/data_checks.h"

#include <vector>

#include "common/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

proto::ElementSpec Batch(const std::vector<std::pair<DType, std::vector<int64_t>>>& components) {
  proto::ElementSpec batch;
  for (const auto& [dtype, dims] : components) {
    proto::ComponentSpec& component = *batch.add_components();
    component.set_dtype(static_cast<int32_t>(dtype));
    for (const int64_t dim : dims) component.add_dims(dim);
  }
  return batch;
}

TEST(CheckTestBatch, ComponentsHaveTheTypesOfTraining) {
  const proto::ElementSpec train = Batch({{DType::kUint8, {-1, 28, 28}}, {DType::kUint8, {-1}}});
  const auto refusal = [&train](const proto::ElementSpec& test) {
    return std::string(
        CheckTestBatch({train, {"/t/x", "/t/y"}}, {test, {"/e/x", "/e/y"}}).message());
  };
  EXPECT_EQ(refusal(train), "");
  EXPECT_THAT(refusal(Batch({{DType::kUint8, {-1, 28, 28}}})),
              HasSubstr("data.test has 1 components, and data.train 2"));
  EXPECT_THAT(refusal(Batch({{DType::kUint8, {-1, 28, 28}}, {DType::kInt32, {-1}}})),
              HasSubstr("component 1 of data.test (/e/y) is int32[N], and of data.train (/t/y) "
                        "uint8[N]"));
  EXPECT_THAT(refusal(Batch({{DType::kUint8, {-1, 32, 32}}, {DType::kUint8, {-1}}})),
              AllOf(HasSubstr("component 0 of data.test (/e/x) is uint8[N,32,32], and of "
                              "data.train (/t/x) uint8[N,28,28]"),
                    HasSubstr("; give both the same shape and type, or name other files")));
  // Data that are generated have no files.
  EXPECT_THAT(std::string(CheckTestBatch(
                              {train, {}},
                              {Batch({{DType::kUint8, {-1, 28, 28}}, {DType::kInt32, {-1}}}), {}})
                              .message()),
              HasSubstr("component 1 of data.test is int32[N], and of data.train uint8[N]"));
}

TEST(TrainingExamples, AreTheFirstOnes) {
  EXPECT_EQ(*TrainingExamples(100, 0.25), 75);
  EXPECT_EQ(*TrainingExamples(100, 0), 100);
  EXPECT_THAT(std::string(TrainingExamples(3, 0.9).status().message()),
              HasSubstr("no training examples are left of 3"));
  EXPECT_FALSE(TrainingExamples(0, 0).ok());
}

}  // namespace
}  // namespace cohort
