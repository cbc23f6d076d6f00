// Values of replicas. The expectations are TensorFlow's: Strategy.reduce and Strategy.gather as
// their pages and strategy tests have them (tensorflow.md 5.1, 5.2).

#include "coordinator/api/replica_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
Tensor Of(const std::vector<T>& values, const Shape& shape) {
  return Tensor::FromVector(values, shape);
}
Tensor Floats(const std::vector<float>& values) {
  return Of(values, Shape{static_cast<int64_t>(values.size())});
}

template <typename T = float>
std::vector<T> Values(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  return {tensor->span<T>().begin(), tensor->span<T>().end()};
}

std::string Error(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(absl::IsInvalidArgument(tensor.status())) << tensor.status();
  return std::string(tensor.status().message());
}

// As TensorFlow's: the function is called with each replica's number and how many there are.
TEST(ValuesFromFunction, GiveEachReplicaARow) {
  const auto values = ValuesFromFunction(3, [](const ValueContext& context) {
    return Of<int64_t>({context.replica_id_in_sync_group, context.num_replicas_in_sync}, {2});
  });
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->shape(), Shape({3, 2}));
  EXPECT_THAT(values->span<int64_t>(), ElementsAre(0, 3, 1, 3, 2, 3));
}

TEST(ValuesFromFunction, OfOneTypeForAll) {
  const auto differ = ValuesFromFunction(2, [](const ValueContext& context) {
    return Floats(std::vector<float>(static_cast<size_t>(1 + context.replica_id_in_sync_group)));
  });
  EXPECT_THAT(Error(differ),
              HasSubstr("gives replica 1 float32[2], and replica 0 a row of float32[1,1]"));
  const auto failed = ValuesFromFunction(2, [](const ValueContext&) {
    return absl::StatusOr<Tensor>(absl::DataLossError("no file"));
  });
  EXPECT_EQ(failed.status(), absl::DataLossError("no file"));
  EXPECT_THAT(Error(ValuesFromFunction(0, [](const ValueContext&) { return Floats({1}); })),
              HasSubstr("of 0 replicas"));
}

TEST(ReduceOfReplicas, WithoutAnAxisIsElementByElement) {
  const std::vector<Tensor> replicas = {Floats({1, 2}), Floats({3, 5}), Floats({5, 8})};
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kSum, replicas)), ElementsAre(9, 15));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, replicas)), ElementsAre(3, 5));
  const std::vector<Tensor> whole = {Of<int64_t>({3}, Shape{1}), Of<int64_t>({4}, Shape{1})};
  EXPECT_THAT(Values<int64_t>(ReduceReplicas(ReplicaReduce::kSum, whole)), ElementsAre(7));
  EXPECT_THAT(Values<int64_t>(ReduceReplicas(ReplicaReduce::kMean, whole)), ElementsAre(3));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {Floats({1, 2}), Floats({3})})),
              HasSubstr("give the axis along which they differ"));
}

// tf.distribute.Strategy.reduce: with a partial batch of 4 and 2 examples the mean divides by 6.
TEST(ReduceOfReplicas, AlongAnAxisAReplicaCountsByItsSize) {
  const std::vector<Tensor> replicas = {Floats({1, 2, 3, 4}), Floats({5, 9})};
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, replicas, {0})), ElementsAre(4));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kSum, replicas, {0})), ElementsAre(24));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, replicas, {-1})), ElementsAre(4));
  const std::vector<Tensor> one_empty = {Floats({1, 3}), Floats({})};
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, one_empty, {0})), ElementsAre(2));
}

TEST(ReduceOfReplicas, OneOrSeveralAxesOfMore) {
  // [2, 3] and [1, 3]
  const std::vector<Tensor> replicas = {Of<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3}),
                                        Of<float>({7, 8, 9}, Shape{1, 3})};
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kSum, replicas, {0})), ElementsAre(12, 15, 18));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, replicas, {0})), ElementsAre(4, 5, 6));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, replicas, {0, 1})), ElementsAre(5));
  const std::vector<Tensor> square = {Of<float>({1, 2, 3, 4}, Shape{2, 2}),
                                      Of<float>({5, 6, 7, 8}, Shape{2, 2})};
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kSum, square, {1})),
              ElementsAre(3 + 11, 7 + 15));
  EXPECT_THAT(Values(ReduceReplicas(ReplicaReduce::kMean, square, {-2})), ElementsAre(4, 5));
}

TEST(ReduceOfReplicas, WhatIsWrongIsNamed) {
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {Floats({1}), Floats({2})}, {1})),
              HasSubstr("axis 1 is out of range for values of rank 1"));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {Floats({1}), Floats({2})}, {0, -1})),
              HasSubstr("twice"));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {})), HasSubstr("no value"));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {Tensor::Scalar(true)})),
              HasSubstr("has no sum"));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kSum, {Floats({1}), Tensor::Scalar(1.0f)})),
              HasSubstr("ranks must be the same"));
  EXPECT_THAT(Error(ReduceReplicas(ReplicaReduce::kMean, {Of<int32_t>({}, Shape{0})}, {0})),
              HasSubstr("the mean of no elements"));
}

TEST(ReduceOfReplicas, OperationsHaveTensorFlowsNames) {
  EXPECT_EQ(*ReplicaReduceFromName("sum"), ReplicaReduce::kSum);
  EXPECT_EQ(*ReplicaReduceFromName("Mean"), ReplicaReduce::kMean);
  EXPECT_THAT(ReplicaReduceFromName("max").status().message(), HasSubstr("SUM or MEAN"));
}

// A value that is not distributed: 0 stays 0, MEAN is the value, SUM is an error unless there is
// one replica.
TEST(ReduceOfReplicas, OfAValueThatNoReplicaMade) {
  EXPECT_THAT(Values(ReduceShared(ReplicaReduce::kSum, Floats({0, 0}), 4)), ElementsAre(0, 0));
  EXPECT_THAT(Values(ReduceShared(ReplicaReduce::kMean, Floats({2}), 4)), ElementsAre(2));
  EXPECT_THAT(Values(ReduceShared(ReplicaReduce::kSum, Floats({2}), 1)), ElementsAre(2));
  EXPECT_THAT(Error(ReduceShared(ReplicaReduce::kSum, Floats({2}), 2)), HasSubstr("2 replicas"));
}

// The example of tf.distribute.Strategy.gather: four replicas of [1, 2, 3].
TEST(GatherOfReplicas, LiesAlongTheAxis) {
  std::vector<Tensor> replicas;
  for (int i = 0; i < 4; ++i) {
    std::vector<float> values(6);
    std::iota(values.begin(), values.end(), static_cast<float>(10 * i));
    replicas.push_back(Of(values, Shape{1, 2, 3}));
  }
  EXPECT_EQ(GatherReplicas(replicas, 0)->shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(GatherReplicas(replicas, 1)->shape(), (Shape{1, 8, 3}));
  EXPECT_EQ(GatherReplicas(replicas, 2)->shape(), (Shape{1, 2, 12}));
  EXPECT_EQ(GatherReplicas(replicas, -1)->shape(), (Shape{1, 2, 12}));
  EXPECT_THAT(Values(GatherReplicas(absl::MakeSpan(replicas).subspan(0, 2), 2)),
              ElementsAre(0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15));
}

TEST(GatherOfReplicas, TakesUnequalSizesAlongTheAxisAlone) {
  const std::vector<Tensor> replicas = {Of<int64_t>({1, 2, 3, 4}, Shape{2, 2}),
                                        Of<int64_t>({5, 6}, Shape{1, 2})};
  EXPECT_THAT(Values<int64_t>(GatherReplicas(replicas, 0)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Error(GatherReplicas(replicas, 1)), HasSubstr("along the gathered axis 1 alone"));
  EXPECT_THAT(Error(GatherReplicas(replicas, 2)), HasSubstr("out of range"));
  EXPECT_THAT(Error(GatherReplicas({Tensor::Scalar(1.0f)}, 0)),
              HasSubstr("scalars cannot be gathered"));
  EXPECT_THAT(Error(GatherReplicas({Floats({1}), Of<float>({1}, Shape{1, 1})}, 0)),
              HasSubstr("ranks"));
}

}  // namespace
}  // namespace cohort
