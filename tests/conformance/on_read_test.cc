// Variables of each synchronization and aggregation. The expectation is TensorFlow's: what its own
// variables did, tests/golden/on_read/make.py, under the same strategy with as many replicas; those
// of MirroredStrategy also where replicas are on several workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/bundle.h"
#include "common/program/bind.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/api/sharded_variable.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<double>;

constexpr char kCheckpoints[] = "/checkpoints";

double NumberOf(const Tensor& scalar) {
  return scalar.dtype() == DType::kInt64 ? static_cast<double>(*scalar.data<int64_t>())
                                         : static_cast<double>(*scalar.data<float>());
}

Tensor ScalarOf(DType dtype, double number) {
  return dtype == DType::kInt64 ? Tensor::Scalar(static_cast<int64_t>(number))
                                : Tensor::Scalar(static_cast<float>(number));
}

// Where the replicas are, and whether a variable may have a value for each.
struct Setting {
  int workers = 1;
  int on_each = 1;
  bool mirrors = true;

  int64_t replicas() const { return int64_t{workers} * on_each; }
};

struct Kind {
  VariableSynchronization synchronization = VariableSynchronization::kOnRead;
  proto::VariableAggregation aggregation = proto::AGGREGATION_SUM;
  DType dtype = DType::kFloat32;
  double initial = 2;
};

// A variable v, and what replicas and the coordinator do to it.
class OneVariable {
 public:
  explicit OneVariable(const Setting& setting, std::string recovery = "")
      : setting_(setting), cluster_(1, 0, setting.workers) {
    ClusterCoordinator::Options options;
    options.homes = Role::kWorker;
    options.mirrored = setting.workers > 1;
    options.replicas = setting.mirrors ? setting.replicas() : 0;
    options.recovery_directory = std::move(recovery);
    options.recovery_interval = absl::Milliseconds(5);
    auto connected = cluster_.Connect(std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
  }

  absl::Status Make(const Kind& kind) {
    VariableSpec spec;
    spec.name = "v";
    spec.dtype = kind.dtype;
    spec.initializer.set_op("constant");
    spec.initializer.set_a(kind.initial);
    spec.trainable = false;
    spec.synchronization = kind.synchronization;
    spec.aggregation = kind.aggregation;
    auto made = coordinator_->Scope(AssignAdd()).CreateVariable(spec);
    if (!made.ok()) return made.status();
    v_.emplace(*std::move(made));
    return coordinator_->ResumeState().status();
  }

  // Replica i assigns 3 (i + 1), or adds it.
  absl::Status InReplicas(bool assign) {
    GraphBuilder graph("update");
    graph.Input("replica", DType::kInt64, {});
    const auto number = [&](const char* name, int64_t value) {
      return graph.Constant(name, Tensor::Scalar(value));
    };
    const std::string whole =
        graph.Op("Mul", {graph.Op("Add", {"replica", number("one", 1)}), number("three", 3)});
    const std::string value =
        graph.Op("Cast", {whole}, {IntAttribute("to", static_cast<int64_t>(v_->dtype()))});
    graph.Output(value);
    Bindings bindings;
    bindings.inputs["replica"] = FromContext(proto::REPLICA_ID);
    bindings.outputs[value] = assign ? ToAssign("v") : ToPush("v");
    return Step(*BindProgram("update", *graph.Finish(), bindings), {}).status();
  }

  // One step of all replicas. What it fetches, if it does.
  absl::StatusOr<FetchedTensors> Step(proto::Program program, InputChoice input) {
    for (int i = 0; i < setting_.on_each; ++i) {
      program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
    }
    if (setting_.workers > 1) program.mutable_replicas()->mutable_communication();
    const auto registered = coordinator_->Register(program);
    if (!registered.ok()) return registered.status();
    ScheduleOptions closure;
    closure.input = std::move(input);
    closure.gang = true;
    closure.round.number = ++round_;
    const auto scheduled = coordinator_->Schedule(*registered, std::move(closure));
    if (!scheduled.ok()) {
      --round_;
      return scheduled.status();
    }
    if (absl::Status joined = coordinator_->Join(); !joined.ok()) return joined;
    return coordinator_->Fetch(*scheduled);
  }

  absl::Status Save() { return Checkpoints().Save({.global_step = 1}).status(); }
  absl::Status Restore() { return Checkpoints().Restore("latest", {&v_->layout(), 1}).status(); }
  double Saved() {
    FileSystem& files = cluster_.WorldOf("chief:0").files;
    const auto reader = BundleReader::Open(files, absl::StrCat(kCheckpoints, "/ckpt-1"));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return NumberOf(*(*reader)->Read("v"));
  }

  Numbers Each() {
    const auto each = coordinator_->LocalResults(*v_);
    EXPECT_TRUE(each.ok()) << each.status();
    Numbers numbers;
    for (const Tensor& value : *each) numbers.push_back(NumberOf(value));
    return numbers;
  }
  absl::StatusOr<double> Value() {
    const auto value = coordinator_->Read(*v_);
    if (!value.ok()) return value.status();
    return NumberOf(*value);
  }
  Tensor Scalar(double number) const { return ScalarOf(v_->dtype(), number); }
  ShardedVariable Variable() { return ShardedVariable(*coordinator_, *v_); }
  ClusterCoordinator& coordinator() { return *coordinator_; }
  SimCluster& cluster() { return cluster_; }

 private:
  CheckpointManager Checkpoints() {
    return CheckpointManager(cluster_.WorldOf("chief:0").files, *coordinator_,
                             {.directory = kCheckpoints});
  }

  const Setting setting_;
  SimCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<cohort::Variable> v_;
  uint64_t round_ = 0;
};

absl::Status Do(const std::string& step, OneVariable& v) {
  if (step == "made") return absl::OkStatus();
  if (step == "replica assign") return v.InReplicas(/*assign=*/true);
  if (step == "replica assign_add") return v.InReplicas(/*assign=*/false);
  if (step == "assign 7") return v.Variable().Assign(v.Scalar(7));
  if (step == "assign_add 1") return v.Variable().AssignAdd(v.Scalar(1));
  if (step == "assign_sub 1") return v.Variable().AssignSub(v.Scalar(1));
  if (step == "save") return v.Save();
  if (step == "restore") {
    absl::Status other = v.Variable().Assign(v.Scalar(50));
    if (!other.ok()) return other;
    return v.Restore();
  }
  return absl::InternalError(step);
}

const json& Golden() {
  static const json* const golden = [] {
    std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/on_read/on_read.json");
    return new json(json::parse(file, nullptr, /*allow_exceptions=*/false));
  }();
  return *golden;
}

Kind KindOf(const json& told) {
  Kind kind;
  kind.synchronization = told["synchronization"] == "NONE"       ? VariableSynchronization::kNone
                         : told["synchronization"] == "ON_WRITE" ? VariableSynchronization::kOnWrite
                                                                 : VariableSynchronization::kOnRead;
  EXPECT_TRUE(proto::VariableAggregation_Parse(
      absl::StrCat("AGGREGATION_", told["aggregation"].get<std::string>()), &kind.aggregation));
  if (told["dtype"] == "int64") kind.dtype = DType::kInt64;
  kind.initial = told["initial"];
  return kind;
}

// TensorFlow lets replicas part where aggregation NONE has nothing to say about what they assign to
// a mirrored variable. Here that is refused.
bool WouldPart(const json& told, const Kind& kind) {
  return told["replicas"] > 1 && kind.synchronization == VariableSynchronization::kOnWrite &&
         kind.aggregation == proto::AGGREGATION_NONE;
}

void ExpectStep(const json& step, OneVariable& v, const Kind& kind) {
  const std::string name = step["step"];
  const absl::Status done = Do(name, v);
  if (step.contains("error")) {
    EXPECT_TRUE(absl::IsInvalidArgument(done)) << done;
    return;
  }
  ASSERT_TRUE(done.ok()) << done;
  const Numbers each = v.Each();
  const Numbers wanted = step["each"];
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(each[each.size() == 1 ? 0 : i], wanted[i]) << "replica " << i;
  }
  const auto value = v.Value();
  if (step.contains("value_error")) {
    EXPECT_TRUE(absl::IsInvalidArgument(value.status())) << value.status();
  } else {
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, step["value"].get<double>());
  }
  if (name == "save") {
    EXPECT_EQ(v.Saved(), step["saved"].get<double>());
  }
}

void ExpectStory(const json& told, const Setting& setting) {
  const Kind kind = KindOf(told);
  SCOPED_TRACE(absl::StrCat(told["strategy"].get<std::string>(), " ", told["replicas"].get<int>(),
                            " on ", setting.workers, ", ",
                            told["synchronization"].get<std::string>(), " ",
                            told["aggregation"].get<std::string>(), " ", DTypeName(kind.dtype)));
  OneVariable v(setting);
  const absl::Status made = v.Make(kind);
  const bool whole_mean =
      kind.dtype == DType::kInt64 && kind.aggregation == proto::AGGREGATION_MEAN;
  if (told.contains("error") || kind.synchronization == VariableSynchronization::kNone ||
      whole_mean) {
    EXPECT_TRUE(absl::IsInvalidArgument(made)) << made;
    return;
  }
  ASSERT_TRUE(made.ok()) << made;
  for (const json& step : told["story"]) {
    const std::string name = step["step"];
    SCOPED_TRACE(name);
    if (WouldPart(told, kind) && name.starts_with("replica")) {
      EXPECT_TRUE(absl::IsInvalidArgument(Do(name, v)));
      continue;
    }
    if (WouldPart(told, kind) && name == "save") return;  // what parted
    // A checkpoint has the values of replicas that have no value together.
    if (step.contains("error") && (name == "save" || name == "restore")) return;
    ExpectStep(step, v, kind);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OnRead, VariablesDoWhatTensorFlowsDoUnderTheSameStrategy) {
  ASSERT_GT(Golden().size(), 100u);
  for (const json& told : Golden()) {
    Setting setting;
    setting.on_each = told["replicas"];
    setting.mirrors = told["strategy"] == "mirrored";
    ExpectStory(told, setting);
  }
}

TEST(OnRead, AndWhereTheReplicasAreOnSeveralWorkers) {
  for (const json& told : Golden()) {
    const int replicas = told["replicas"];
    if (told["strategy"] != "mirrored" || replicas == 1) continue;
    for (const int on_each : {1, 2}) {
      if (replicas % on_each == 0 && replicas > on_each) {
        ExpectStory(told, {.workers = replicas / on_each, .on_each = on_each});
      }
    }
  }
}

// Two examples for four replicas: the last two do not run, and what they had stays.
TEST(OnRead, AReplicaThatHasNoExampleKeepsItsValue) {
  for (const int workers : {1, 2, 4}) {
    OneVariable v({.workers = workers, .on_each = 4 / workers});
    ASSERT_TRUE(v.Make({}).ok());
    ASSERT_TRUE(v.InReplicas(/*assign=*/true).ok());
    proto::DatasetSpec data;
    data.mutable_source()->mutable_range()->set_begin(100);
    data.mutable_source()->mutable_range()->set_end(102);
    data.add_transforms()->mutable_batch()->set_size(2);
    const DatasetHandle handle = v.coordinator().CreatePerWorkerDataset(data);
    for (const bool assign : {false, true}) {
      GraphBuilder graph("of_batch");
      graph.Input("x", DType::kInt64, {-1});
      graph.Input("v", DType::kFloat32, {});
      const std::string x = graph.Op(
          "ReduceSum",
          {graph.Op("Cast", {"x"}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))})},
          {IntAttribute("keepdims", 0)});
      const std::string value = graph.Op("Add", {x, "v"});
      graph.Output(value);
      Bindings bindings;
      bindings.inputs["x"] = FromBatch(0);
      bindings.inputs["v"] = FromVariable("v");
      bindings.outputs[value] = assign ? ToAssign("v") : ToPush("v");
      const auto ran =
          v.Step(*BindProgram("of_batch", *graph.Finish(), bindings), SplitInput{handle, {}});
      ASSERT_TRUE(ran.ok()) << ran.status();
      // v + (x + v), and then x + v, each of its own.
      EXPECT_THAT(v.Each(), assign ? ElementsAre(206, 214, 9, 12) : ElementsAre(106, 113, 9, 12))
          << workers << " workers";
    }
  }
}

// A cut has each replica's value, not what they are together.
TEST(OnRead, ARecoveryGivesEachReplicaWhatItHad) {
  for (const int workers : {1, 2}) {
    OneVariable v({.workers = workers, .on_each = 4 / workers}, "/recovery");
    ASSERT_TRUE(v.Make({}).ok());
    ASSERT_TRUE(v.InReplicas(/*assign=*/true).ok());
    ASSERT_TRUE(v.coordinator().MakeDurable().ok());
    for (int worker = 0; worker < workers; ++worker) {
      v.cluster().tasks().Kill({Role::kWorker, worker});
      v.cluster().tasks().Start({Role::kWorker, worker});
    }
    v.cluster().sim().RunFor(absl::Seconds(10));
    EXPECT_THAT(v.Each(), ElementsAre(3, 6, 9, 12));
    EXPECT_GE(v.coordinator().stats().recoveries, 1u);
    ASSERT_TRUE(v.InReplicas(/*assign=*/false).ok());
    EXPECT_THAT(v.Each(), ElementsAre(6, 12, 18, 24)) << "and it goes on";
  }
}

TEST(OnRead, WhatDoesNotFitIsNamedWithTheRemedy) {
  OneVariable v({.on_each = 2});
  ASSERT_TRUE(v.Make({}).ok());
  const auto problem = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(problem(v.Variable().AssignAdd(v.Scalar(1))), HasSubstr("in replica context"));
  EXPECT_THAT(problem(v.Variable().Assign(Tensor::FromVector<float>({1, 2}, {2}))),
              HasSubstr("float32[2]"));
  const Tensor ids = Tensor::FromVector<int64_t>({0}, {1});
  EXPECT_THAT(problem(v.Variable().ScatterAdd(ids, Tensor::FromVector<float>({1}, {1}))),
              HasSubstr("no scatter"));
  VariableSpec trained;
  trained.name = "trained";
  trained.initializer.set_op("zeros");
  trained.synchronization = VariableSynchronization::kOnRead;
  proto::UpdateRule sgd;
  sgd.set_op("sgd");
  EXPECT_THAT(problem(v.coordinator().Scope(sgd).CreateVariable(trained).status()),
              HasSubstr("not trainable"));
  // More replicas than it was made for.
  OneVariable three({.on_each = 3});
  ASSERT_TRUE(three.Make({}).ok());
  proto::Program four;
  GraphBuilder graph("four");
  graph.Input("v", DType::kFloat32, {});
  const std::string value = graph.Op("Neg", {"v"});
  graph.Output(value);
  Bindings bindings;
  bindings.inputs["v"] = FromVariable("v");
  bindings.outputs[value] = ToAssign("v");
  four = *BindProgram("four", *graph.Finish(), bindings);
  four.mutable_replicas()->add_devices("cpu:3");
  EXPECT_THAT(problem(three.Step(four, {}).status()),
              testing::AllOf(HasSubstr("values of 3 replicas"), HasSubstr("4 run")));
}

TEST(OnRead, ItIsOneVariableWithAValueOfEachReplica) {
  OneVariable v({.on_each = 2});
  ASSERT_TRUE(v.Make({}).ok());
  const auto values = v.Variable().variable().variables();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].name, "v");
  EXPECT_EQ(values[1].name, "v/replica_1") << "as MirroredStrategy calls them";
  EXPECT_EQ(v.Variable().variable().shape(), Shape{});
}

}  // namespace
}  // namespace cohort
