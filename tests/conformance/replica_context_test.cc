// Variables that replicas update, and reads that are cached. A replica is a closure of a
// synchronous round. Each expectation is TensorFlow's: cluster_coordinator_test.py
// (testVariableAggregation, testVariableCaching), parameter_server_strategy_v2_test.py
// (testBasicVariableWithAggregation, testBasicShardedVariableWithAggregation), and what the page of
// tf.VariableAggregation says of its modes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/api/sharded_variable.h"
#include "coordinator/strategy/partitioner.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReplicaContextTest : public testing::Test {
 protected:
  void SetUp() override {
    ClusterCoordinator::Options options;
    options.partitioner = *MakePartitioner(FixedShardsPartitionerSpec{2});
    auto connected = cluster_.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
  }

  struct Of {
    std::string name;
    Shape shape;
    proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;
    DType dtype = DType::kFloat32;
  };
  Variable Make(const Of& of) {
    VariableSpec spec;
    spec.name = of.name;
    spec.dtype = of.dtype;
    spec.shape = of.shape;
    spec.initializer.set_op("ones");
    spec.aggregation = of.aggregation;
    const auto made = coordinator_->Scope(AssignAdd()).CreateVariable(spec);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }

  // v.assign(argument), or v.assign_add(argument).
  enum class Update { kAssign, kAssignAdd };
  ProgramHandle UpdateProgram(const Variable& variable, Update update) {
    GraphBuilder graph("update");
    const Shape shape = variable.shape();
    graph.Input("argument", variable.dtype(), shape.dims());
    const std::string value = graph.Op("Identity", {"argument"});
    graph.Output(value);
    Bindings bindings;
    bindings.inputs["argument"] = FromArgument(0);
    bindings.outputs[value] =
        update == Update::kAssign ? ToAssign(variable.name()) : ToPush(variable.name());
    return *coordinator_->Register(*BindProgram("update", *graph.Finish(), bindings));
  }

  // One round, whose replicas are given these.
  absl::Status Run(const ProgramHandle& program, const std::vector<Tensor>& replicas) {
    ++round_;
    for (const Tensor& replica : replicas) {
      ScheduleOptions options;
      options.arguments = {replica};
      options.round = {round_, static_cast<uint32_t>(replicas.size())};
      const auto scheduled = coordinator_->Schedule(program, std::move(options));
      if (!scheduled.ok()) return scheduled.status();
    }
    return coordinator_->Join();
  }

  template <typename T = float>
  std::vector<T> Read(const Variable& variable) {
    const auto value = coordinator_->Read(variable);
    EXPECT_TRUE(value.ok()) << value.status();
    return {value->span<T>().begin(), value->span<T>().end()};
  }

  SimCluster cluster_{1, 2, 2};
  std::unique_ptr<ClusterCoordinator> coordinator_;
  uint64_t round_ = 0;
};

TEST_F(ReplicaContextTest, WhatReplicasAssignIsAggregated) {
  for (const int64_t replicas : {1, 2, 4}) {
    std::vector<Tensor> values;
    for (int64_t i = 0; i < replicas; ++i) {
      values.push_back(Tensor::Scalar(static_cast<float>(i + 1)));
    }
    const auto n = static_cast<float>(replicas);
    const std::vector<std::pair<proto::VariableAggregation, float>> expected = {
        {proto::AGGREGATION_SUM, n * (n + 1) / 2},
        {proto::AGGREGATION_MEAN, (n + 1) / 2},
        {proto::AGGREGATION_ONLY_FIRST_REPLICA, 1}};
    for (const auto& [aggregation, value] : expected) {
      const Variable v = Make({absl::StrCat("v", round_), Shape{}, aggregation});
      const absl::Status run = Run(UpdateProgram(v, Update::kAssign), values);
      ASSERT_TRUE(run.ok()) << run;
      EXPECT_THAT(Read(v), ElementsAre(value)) << replicas << " replicas";
    }
  }
}

TEST_F(ReplicaContextTest, WhatReplicasAssignToAShardedVariableIsAggregated) {
  const Variable v = Make({"v", Shape{8}, proto::AGGREGATION_SUM});
  ASSERT_EQ(v.variables().size(), 2u);
  std::vector<Tensor> replicas;
  std::vector<float> expected(8);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> value(8);
    std::iota(value.begin(), value.end(), 0.0f);
    value[0] = static_cast<float>(i + 10);
    for (size_t j = 0; j < 8; ++j) expected[j] += value[j];
    replicas.push_back(Tensor::FromVector<float>(value, Shape{8}));
  }
  const absl::Status run = Run(UpdateProgram(v, Update::kAssign), replicas);
  ASSERT_TRUE(run.ok()) << run;
  EXPECT_EQ(Read(v), expected);
}

// Counters: each replica's count, or a global step, which all replicas advance alike.
TEST_F(ReplicaContextTest, WholeNumbersAreSummedOrOfOneReplica) {
  const std::vector<Tensor> ones(4, Tensor::Scalar<int64_t>(1));
  const Variable examples = Make({"examples", Shape{}, proto::AGGREGATION_SUM, DType::kInt64});
  const Variable step =
      Make({"step", Shape{}, proto::AGGREGATION_ONLY_FIRST_REPLICA, DType::kInt64});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Run(UpdateProgram(examples, Update::kAssignAdd), ones).ok());
    ASSERT_TRUE(Run(UpdateProgram(step, Update::kAssignAdd), ones).ok());
  }
  EXPECT_THAT(Read<int64_t>(examples), ElementsAre(1 + 3 * 4));
  EXPECT_THAT(Read<int64_t>(step), ElementsAre(1 + 3));
}

// TensorFlow: ValueError, "You must specify an aggregation method to update a ... in Replica
// Context". One replica alone needs none.
TEST_F(ReplicaContextTest, WithoutAnAggregationReplicasDoNotUpdate) {
  const Variable v = Make({"v", Shape{}});
  for (const Update update : {Update::kAssign, Update::kAssignAdd}) {
    const absl::Status refused =
        Run(UpdateProgram(v, update), {Tensor::Scalar(2.0f), Tensor::Scalar(2.0f)});
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("in replica context"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("SUM, MEAN or ONLY_FIRST_REPLICA"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("cross-replica context"));
  }
  EXPECT_THAT(Read(v), ElementsAre(1)) << "nothing has run";
  ScheduleOptions alone;
  alone.arguments = {Tensor::Scalar(5.0f)};
  ASSERT_TRUE(coordinator_->Schedule(UpdateProgram(v, Update::kAssign), alone).ok());
  ASSERT_TRUE(coordinator_->Join().ok());
  EXPECT_THAT(Read(v), ElementsAre(5));
  ASSERT_TRUE(coordinator_->Assign(v, Tensor::Scalar(7.0f)).ok()) << "cross-replica context";
  EXPECT_THAT(Read(v), ElementsAre(7));
}

TEST_F(ReplicaContextTest, AModeThatDoesNotFitTheVariableIsRefusedWhereItIsMade) {
  const auto error = [&](proto::VariableAggregation aggregation) {
    VariableSpec spec{"n", DType::kInt64, Shape{}, {}};
    spec.initializer.set_op("zeros");
    spec.aggregation = aggregation;
    return std::string(coordinator_->Scope(AssignAdd()).CreateVariable(spec).status().message());
  };
  EXPECT_THAT(error(proto::AGGREGATION_MEAN), HasSubstr("variable 'n': aggregation MEAN"));
  EXPECT_THAT(error(static_cast<proto::VariableAggregation>(9)),
              HasSubstr("invalid variable aggregation mode 9"));
}

// A round of closures that update nothing would wait for ever.
TEST_F(ReplicaContextTest, AReplicaUpdatesSomething) {
  ScheduleOptions options;
  options.round = {1, 1};
  options.arguments = {Tensor::FromVector<float>({1}, Shape{1})};
  const absl::Status refused =
      coordinator_->Schedule(*coordinator_->Register(EchoProgram()), options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
}

TEST_F(ReplicaContextTest, ReadsInACachingScopeAreOfTheFirst) {
  const Variable v = Make({"v", Shape{2}});
  const ShardedVariable sharded(*coordinator_, v);
  const auto assign = [&](float value) {
    ASSERT_TRUE(coordinator_->Assign(v, Tensor::FromVector<float>({value, value}, Shape{2})).ok());
  };
  const auto in_scope = [&](float first, float changed) {
    auto scope = CachingScope::Enter(*coordinator_);
    ASSERT_TRUE(scope.ok()) << scope.status();
    EXPECT_THAT(Read(v), ElementsAre(first, first));
    assign(changed);
    EXPECT_THAT(Read(v), ElementsAre(first, first));
    EXPECT_EQ(sharded.ConvertToTensor()->span<float>()[1], first);
    const Tensor id = Tensor::FromVector<int64_t>({1}, Shape{1});
    EXPECT_EQ(sharded.SparseRead(id)->span<float>()[0], changed) << "rows pass it by";
  };
  in_scope(1, 5);
  EXPECT_THAT(Read(v), ElementsAre(5, 5)) << "the scope has ended";
  assign(2);
  in_scope(2, 3);
  in_scope(3, 4);  // a new scope begins with nothing
}

TEST_F(ReplicaContextTest, CachingScopesAreOfOneThreadAndNotNested) {
  const Variable v = Make({"v", Shape{}});
  auto scope = CachingScope::Enter(*coordinator_);
  ASSERT_TRUE(scope.ok());
  EXPECT_THAT(Read(v), ElementsAre(1));
  const absl::Status nested = CachingScope::Enter(*coordinator_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(nested)) << nested;
  EXPECT_THAT(std::string(nested.message()), HasSubstr("cannot be nested"));
  ASSERT_TRUE(coordinator_->Assign(v, Tensor::Scalar(5.0f)).ok());
  EXPECT_THAT(Read(v), ElementsAre(1)) << "what could not be entered ends nothing";
  std::thread([&] {
    EXPECT_THAT(Read(v), ElementsAre(5)) << "another thread is in no scope";
    EXPECT_TRUE(CachingScope::Enter(*coordinator_).ok());
  }).join();
  EXPECT_THAT(Read(v), ElementsAre(1));
}

// Inside a closure: v.read_value() twice, while other closures change the variable. A program has
// one input for a variable, so there is one value to read.
TEST_F(ReplicaContextTest, AClosurePullsAVariableOnceAndItsReadsAreOfThat) {
  const Variable v = Make({"v", Shape{2}});
  GraphBuilder graph("read_twice");
  Bindings bindings;
  graph.Input("v", DType::kFloat32, {2});
  bindings.inputs["v"] = FromVariable("v");
  for (int i = 0; i < 2; ++i) {
    const std::string read = graph.Op("Identity", {"v"});
    graph.Output(read);
    bindings.outputs[read] = ToFetch();
  }
  const std::string one =
      graph.Op("Identity", {graph.Constant("one", Tensor::FromVector<float>({1, 1}, Shape{2}))});
  graph.Output(one);
  bindings.outputs[one] = ToPush("v");
  const ProgramHandle program =
      *coordinator_->Register(*BindProgram("read_twice", *graph.Finish(), bindings));
  GraphBuilder other("bound_twice");
  Bindings twice;
  for (const char* name : {"first", "second"}) {
    other.Input(name, DType::kFloat32, {2});
    twice.inputs[name] = FromVariable("v");
  }
  const std::string sum = other.Op("Add", {"first", "second"});
  other.Output(sum);
  twice.outputs[sum] = ToFetch();
  EXPECT_THAT(std::string(BindProgram("bound_twice", *other.Finish(), twice).status().message()),
              HasSubstr("bound twice"));
  const uint64_t before = coordinator_->parts().ps->Stats()->pulled_slices();
  constexpr uint64_t kClosures = 40;
  std::vector<RemoteValue> values;
  for (uint64_t i = 0; i < kClosures; ++i) {
    values.push_back(*coordinator_->Schedule(program, {}));
  }
  ASSERT_TRUE(coordinator_->Join().ok());
  for (const RemoteValue& value : values) {
    const auto& fetched = *value.state().result();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(fetched[0].span<float>()[i], fetched[1].span<float>()[i]);
    }
  }
  EXPECT_EQ(coordinator_->parts().ps->Stats()->pulled_slices() - before, 2 * kClosures);
  EXPECT_THAT(Read(v), ElementsAre(1 + kClosures, 1 + kClosures));
}

}  // namespace
}  // namespace cohort
