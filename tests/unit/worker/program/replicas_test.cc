// Replicas of one worker: who gets which part of a batch, and how what they compute becomes one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/program/program.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"
#include "worker/program/replicated_run.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> Counts(int64_t examples, int64_t replicas) {
  std::vector<int64_t> counts;
  int64_t begin = 0;
  for (const BatchPart& part : SplitBatch(examples, replicas)) {
    EXPECT_EQ(part.begin, begin);
    begin += part.count;
    counts.push_back(part.count);
  }
  EXPECT_EQ(begin, examples);
  return counts;
}

// TensorFlow's rebatching of a global batch on one worker (tensorflow.md 6.2), where empty batches
// are left out.
TEST(BatchParts, TheFirstReplicasGetTheRemainder) {
  EXPECT_THAT(Counts(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(Counts(7, 4), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(Counts(5, 4), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(Counts(2, 4), ElementsAre(1, 1));
  EXPECT_THAT(Counts(10, 3), ElementsAre(4, 3, 3));
  EXPECT_THAT(Counts(5, 1), ElementsAre(5));
}

Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromVector(values, Shape{static_cast<int64_t>(values.size())});
}

std::vector<float> Joined(JoinRule rule, const std::vector<Tensor>& values) {
  const auto joined = JoinReplicas(rule, values);
  EXPECT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->size(), 1u);
  return {(*joined)[0].span<float>().begin(), (*joined)[0].span<float>().end()};
}

TEST(JoinReplicas, ASumIsTakenAsABalancedTree) {
  // In the order of a tree over ranks the large ones meet last, and so the small ones count.
  const float large = 16777216;  // 2^24: one more is no other float
  EXPECT_THAT(Joined(JoinRule::kSum, {Floats({1}), Floats({1}), Floats({large})}),
              ElementsAre(large + 2));
  EXPECT_THAT(Joined(JoinRule::kSum, {Floats({large}), Floats({1}), Floats({1}), Floats({1})}),
              ElementsAre(large + 2))
      << "(large + 1) + (1 + 1)";
}

TEST(JoinReplicas, RowsLieBehindEachOther) {
  EXPECT_THAT(Joined(JoinRule::kRows, {Floats({1, 2}), Floats({3})}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Joined(JoinRule::kFirst, {Floats({1, 2}), Floats({3, 4})}), ElementsAre(1, 2));
}

TEST(JoinReplicas, WhatDoesNotFitTogetherIsAnError) {
  const auto shapes = JoinReplicas(JoinRule::kSum, {Floats({1, 2}), Floats({3})});
  EXPECT_THAT(shapes.status().message(), HasSubstr("float32[2] and float32[1]"));
  const auto bools = JoinReplicas(JoinRule::kSum, {Tensor::Scalar(true), Tensor::Scalar(false)});
  EXPECT_THAT(bools.status().message(), HasSubstr("has no sum"));
}

TEST(JoinReplicas, AMeanOverExamplesWeighsReplicasByTheirParts) {
  EXPECT_EQ(LeafWeight(JoinRule::kOfExamples, 3, 4, 2), 0.75f);
  EXPECT_EQ(LeafWeight(JoinRule::kMean, 3, 4, 2), 0.5f);
  EXPECT_EQ(LeafWeight(JoinRule::kSum, 3, 4, 2), 1.0f);
  EXPECT_EQ(LeafWeight(JoinRule::kOfExamples, 3, 3, 1), 1.0f);
}

class ReplicasTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cluster_.Attach(1).ok()); }

  static void OnReplicas(int replicas, proto::Program& program) {
    for (int i = 0; i < replicas; ++i) {
      program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
    }
  }
  // x[0 .. rows), their replica, and how many there are.
  proto::Program ContextProgram(proto::FetchOfReplicas fetch) {
    proto::Program program;
    program.set_name("context");
    GraphBuilder builder("context");
    const std::string x = builder.Input("x", DType::kInt64, {-1});
    const std::string replica = builder.Input("replica", DType::kInt64, {});
    const std::string count = builder.Input("count", DType::kInt64, {});
    const std::string value = builder.Op("Add", {builder.Op("Mul", {replica, count}), x});
    builder.Output(value);
    SetModel(program, builder);
    BindBatch(program, x, 0);
    for (const auto& [input, context] :
         {std::pair(replica, proto::REPLICA_ID), std::pair(count, proto::NUM_REPLICAS)}) {
      proto::InputBinding& binding = *program.add_inputs();
      binding.set_input(input);
      binding.set_context(context);
    }
    BindFetch(program, value);
    program.mutable_outputs(0)->set_of_replicas(fetch);
    return program;
  }
  absl::StatusOr<std::vector<Tensor>> Run(const proto::Program& program, int64_t rows) {
    if (absl::Status status = cluster_.Register(program, layouts_); !status.ok()) return status;
    proto::DatasetSpec spec;
    spec.mutable_source()->mutable_range()->set_end(rows);
    spec.add_transforms()->mutable_batch()->set_size(rows);
    if (auto made = cluster_.CreateDataset(++last_dataset_, spec); !made.ok()) {
      return made.status();
    }
    proto::RunClosureRequest closure = cluster_.Closure(program);
    closure.mutable_split()->set_dataset_id(last_dataset_);
    return cluster_.Run(closure);
  }

  WorkerCluster cluster_{1};
  std::vector<proto::VariableLayout> layouts_;
  uint64_t last_dataset_ = 0;
};

std::vector<int64_t> Ints(const Tensor& tensor) {
  return {tensor.span<int64_t>().begin(), tensor.span<int64_t>().end()};
}

TEST_F(ReplicasTest, EachReplicaComputesItsPartOfTheBatch) {
  proto::Program program = ContextProgram(proto::EACH_REPLICA);
  OnReplicas(3, program);
  const auto each = Run(program, 5);
  ASSERT_TRUE(each.ok()) << each.status();
  ASSERT_EQ(each->size(), 3u);
  EXPECT_THAT(Ints((*each)[0]), ElementsAre(0, 1));
  EXPECT_THAT(Ints((*each)[1]), ElementsAre(3 + 2, 3 + 3));
  EXPECT_THAT(Ints((*each)[2]), ElementsAre(6 + 4));

  program = ContextProgram(proto::ROWS_OF_REPLICAS);
  OnReplicas(3, program);
  const auto rows = Run(program, 2);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Ints((*rows)[0]), ElementsAre(0, 3 + 1)) << "the third has no example";
}

TEST_F(ReplicasTest, ADeviceThatTheWorkerDoesNotHaveIsRefused) {
  proto::Program program = ContextProgram(proto::EACH_REPLICA);
  program.mutable_replicas()->add_devices("gpu:0");
  const absl::Status refused = cluster_.Register(program, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("'gpu:0': this worker computes on its processor"));
  program.mutable_replicas()->set_devices(0, "gpu:x");
  EXPECT_THAT(cluster_.Register(program, {}).message(),
              HasSubstr("'gpu:x', which is not a device"));
}

TEST_F(ReplicasTest, ABatchThatCannotBeSharedOutIsAnError) {
  proto::Program program = EchoProgram();
  OnReplicas(2, program);
  ASSERT_TRUE(cluster_.Register(program, {}).ok());
  proto::DatasetSpec spec;  // single numbers
  spec.mutable_source()->mutable_range()->set_end(4);
  ASSERT_TRUE(cluster_.CreateDataset(1, spec).ok());
  proto::RunClosureRequest closure = cluster_.Closure(program);
  closure.mutable_split()->set_dataset_id(1);
  EXPECT_THAT(
      cluster_.Run(closure).status().message(),
      testing::AllOf(HasSubstr("2 replicas share out a batch"), HasSubstr("batch the data set")));
}

// What three replicas push of a counter, whose aggregation says how it becomes one.
TEST_F(ReplicasTest, WhatReplicasAddIsAggregatedAsTheVariableSays) {
  const std::vector<std::pair<proto::VariableAggregation, int64_t>> expected = {
      {proto::AGGREGATION_SUM, 3}, {proto::AGGREGATION_ONLY_FIRST_REPLICA, 1}};
  int64_t sum = 0;
  for (const auto& [aggregation, added] : expected) {
    layouts_ = {MakeLayout("counter", DType::kInt64, {2}, {2}, 0, 1)};
    layouts_[0].mutable_rule()->set_op("assign_add");
    proto::Program program = CounterProgram(2, /*pull=*/false);
    OnReplicas(3, program);
    EXPECT_THAT(cluster_.Register(program, layouts_).message(),
                HasSubstr("its aggregation is NONE"));
    if (sum == 0) {
      ASSERT_TRUE(cluster_.CreateVariables(layouts_).ok());
    }
    layouts_[0].set_aggregation(aggregation);
    ASSERT_TRUE(cluster_.Register(program, layouts_).ok());
    ASSERT_TRUE(cluster_.Run(cluster_.Closure(program)).ok());
    sum += added;
    const proto::Program read = ReadProgram("counter", DType::kInt64, {2});
    ASSERT_TRUE(cluster_.Register(read, layouts_).ok());
    EXPECT_THAT(Ints((*cluster_.Run(cluster_.Closure(read)))[0]), ElementsAre(sum, sum));
  }
}

// A gang that comes first and is the second: it pulls what the first one has pushed.
TEST_F(ReplicasTest, AGangPullsWhatTheOneBeforeHasPushed) {
  layouts_ = {MakeLayout("counter", DType::kInt64, {2}, {2}, 0, 1)};
  layouts_[0].mutable_rule()->set_op("assign_add");
  ASSERT_TRUE(cluster_.CreateVariables(layouts_).ok());
  const proto::Program program = CounterProgram(2, /*pull=*/true);
  ASSERT_TRUE(cluster_.Register(program, layouts_).ok());
  std::vector<proto::RunClosureRequest> gangs;
  for (uint64_t i = 0; i < 3; ++i) {
    gangs.push_back(cluster_.Closure(program));
    gangs.back().set_round(i + 1);
    gangs.back().set_aggregate(1);
    gangs.back().mutable_gang()->set_generation(1);
    gangs.back().mutable_gang()->set_sequence(i + 1);
  }
  auto third = cluster_.StartClosure(gangs[2]);
  auto second = cluster_.StartClosure(gangs[1]);
  auto first = cluster_.StartClosure(gangs[0]);
  int64_t before = 0;
  for (auto* pending : {&first, &second, &third}) {
    const auto answer = pending->get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto fetched = ReadTensors(answer->header.fetches(), answer->payload);
    EXPECT_THAT(Ints((*fetched)[0]), ElementsAre(before, before));
    EXPECT_TRUE(answer->header.round_applied());
    ++before;
  }
}

}  // namespace
}  // namespace cohort
