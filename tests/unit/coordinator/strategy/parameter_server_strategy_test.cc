#include "coordinator/strategy/parameter_server_strategy.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/make_strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

VariableSpec Variable(const std::string& name, const Shape& shape) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = shape;
  spec.initializer.set_op("zeros");
  return spec;
}

// The variables of the shipped MNIST job, and programs that are only bindings.
ModelPrograms Mnist() {
  ModelPrograms model;
  model.variables = {Variable("dense/kernel", {784, 256}),   Variable("dense/bias", {256}),
                     Variable("dense_1/kernel", {256, 128}), Variable("dense_1/bias", {128}),
                     Variable("dense_2/kernel", {128, 10}),  Variable("dense_2/bias", {10})};
  model.update_rule.set_op("rmsprop");
  model.train_step.set_name("train_step");
  for (const VariableSpec& variable : model.variables) {
    model.train_step.add_inputs()->set_variable(variable.name);
    model.train_step.add_outputs()->set_push(variable.name);
  }
  model.eval_step.set_name("eval_step");
  model.predict.set_name("predict");
  return model;
}

Plan MakePlan(const StrategySpec& spec, const ClusterShape& cluster) {
  const auto strategy = MakeStrategy(spec);
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  absl::StatusOr<Plan> plan = (*strategy)->MakePlan(Mnist(), cluster);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

// "dense/kernel 0:[0,784)@0": slice id, rows, ps.
std::vector<std::string> Placement(const Plan& plan) {
  std::vector<std::string> lines;
  for (const proto::VariableLayout& layout : plan.variables) {
    std::string line = layout.name();
    for (const proto::SliceHome& slice : layout.slices()) {
      absl::StrAppend(&line, " ", slice.slice_id(), ":[", slice.row_begin(), ",",
                      slice.row_begin() + slice.row_count(), ")@", slice.ps());
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(ParameterServerStrategy, WithoutAPartitionerVariablesTakeTurns) {
  EXPECT_THAT(Placement(MakePlan({}, {.ps = {0, 1}, .workers = {0, 1, 2}})),
              ElementsAre("dense/kernel 0:[0,784)@0", "dense/bias 1:[0,256)@1",
                          "dense_1/kernel 2:[0,256)@0", "dense_1/bias 3:[0,128)@1",
                          "dense_2/kernel 4:[0,128)@0", "dense_2/bias 5:[0,10)@1"));
}

TEST(ParameterServerStrategy, ASparseClusterIsPlannedWithItsTaskIndices) {
  EXPECT_THAT(Placement(MakePlan({}, {.ps = {0, 3}, .workers = {1, 4}})),
              ElementsAre("dense/kernel 0:[0,784)@0", "dense/bias 1:[0,256)@3",
                          "dense_1/kernel 2:[0,256)@0", "dense_1/bias 3:[0,128)@3",
                          "dense_2/kernel 4:[0,128)@0", "dense_2/bias 5:[0,10)@3"));
}

TEST(ParameterServerStrategy, ShardsOfAPartitionedVariableTakeTurnsToo) {
  StrategySpec spec;
  MinSizePartitionerSpec partitioner;  // 256 KiB: 784 x 256 floats make 3.06, so 4 shards
  partitioner.max_shards = 8;
  spec.partitioner = partitioner;
  EXPECT_THAT(Placement(MakePlan(spec, {.ps = {0, 1, 2}, .workers = {0}})),
              ElementsAre("dense/kernel 0:[0,196)@0 1:[196,392)@1 2:[392,588)@2 3:[588,784)@0",
                          "dense/bias 4:[0,256)@1", "dense_1/kernel 5:[0,256)@2",
                          "dense_1/bias 6:[0,128)@0", "dense_2/kernel 7:[0,128)@1",
                          "dense_2/bias 8:[0,10)@2"));
}

TEST(ParameterServerStrategy, LayoutsCarryTypeRuleAndInitializerAndProgramsStay) {
  const Plan plan = MakePlan({}, {.ps = {0}, .workers = {0}});
  const proto::VariableLayout& kernel = plan.variables.at(0);
  EXPECT_EQ(kernel.dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(kernel.dims(), ElementsAre(784, 256));
  EXPECT_EQ(kernel.rule().op(), "rmsprop");
  EXPECT_EQ(kernel.initializer().op(), "zeros");
  const ModelPrograms model = Mnist();
  EXPECT_EQ(plan.train_step.SerializeAsString(), model.train_step.SerializeAsString());
  EXPECT_EQ(plan.eval_step.SerializeAsString(), model.eval_step.SerializeAsString());
  EXPECT_EQ(plan.predict.SerializeAsString(), model.predict.SerializeAsString());
}

TEST(ParameterServerStrategy, TheTrainStepAloneIsCompressed) {
  const CompressionSpec spec{"bfloat16", "float16", 0.25};
  const ModelPrograms model = Mnist();
  const Plan plan = *ParameterServerStrategy(nullptr, PlacementPolicy::kRoundRobin, spec)
                         .MakePlan(model, {.ps = {0}, .workers = {0}});
  const proto::Compression& compression = plan.train_step.compression();
  EXPECT_EQ(compression.pull_dtype(), 16);  // onnx's numbers
  EXPECT_EQ(compression.push_dtype(), 10);
  EXPECT_EQ(compression.top_k(), 0.25);
  EXPECT_EQ(plan.eval_step.SerializeAsString(), model.eval_step.SerializeAsString());
  EXPECT_EQ(plan.predict.SerializeAsString(), model.predict.SerializeAsString());
}

TEST(ParameterServerStrategy, VariablesThatDoNotTrainHaveNoOptimizer) {
  ModelPrograms model = Mnist();
  model.variables[1].trainable = false;
  const Plan plan = *ParameterServerStrategy(nullptr).MakePlan(model, {.ps = {0}, .workers = {0}});
  EXPECT_EQ(plan.variables[0].rule().op(), "rmsprop");
  EXPECT_EQ(plan.variables[1].rule().op(), "assign_add");
  EXPECT_EQ(plan.variables[1].rule().parameters_size(), 0);
}

TEST(ParameterServerStrategy, PlansArePureFunctionsOfTheirArguments) {
  const ParameterServerStrategy strategy(nullptr);
  for (const ClusterShape& cluster :
       {ClusterShape{{0, 1}, {0}}, ClusterShape{{0, 3, 4, 5, 9}, {1, 4, 8}}}) {
    const Plan a = *strategy.MakePlan(Mnist(), cluster);
    const Plan b = *strategy.MakePlan(Mnist(), cluster);
    ASSERT_EQ(a.variables.size(), b.variables.size());
    for (size_t i = 0; i < a.variables.size(); ++i) {
      EXPECT_EQ(a.variables[i].SerializeAsString(), b.variables[i].SerializeAsString());
    }
    EXPECT_EQ(strategy.NumReplicasInSync(cluster), 1);
  }
}

TEST(ParameterServerStrategy, ItNeedsAPsAndAWorker) {
  const ParameterServerStrategy strategy(nullptr);
  const auto error = [&](const ClusterShape& cluster) {
    return std::string(strategy.MakePlan(Mnist(), cluster).status().message());
  };
  EXPECT_THAT(error({.ps = {}, .workers = {0}}), HasSubstr("at least one ps"));
  EXPECT_THAT(error({.ps = {0}, .workers = {}}), HasSubstr("at least one worker"));
}

TEST(ParameterServerStrategy, ProgramsMayOnlyUseVariablesOfTheModel) {
  ModelPrograms model = Mnist();
  model.eval_step.add_inputs()->set_variable("ghost");
  const absl::Status status =
      ParameterServerStrategy(nullptr).MakePlan(model, {.ps = {0}, .workers = {0}}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'eval_step' uses variable 'ghost'"));
}

TEST(ParameterServerStrategy, StepsOfARoundDoNotMeetWhileTheyCompute) {
  ModelPrograms model = Mnist();
  model.exchanges = true;
  StrategySpec spec;
  const ClusterShape cluster = {.ps = {0}, .workers = {0, 1}};
  EXPECT_TRUE((*MakeStrategy(spec))->MakePlan(model, cluster).ok()) << "a step is one replica";
  spec.consistency = SynchronousSpec{.aggregate = 1};
  EXPECT_TRUE((*MakeStrategy(spec))->MakePlan(model, cluster).ok()) << "as is a round of one";
  spec.consistency = SynchronousSpec{.aggregate = 2, .backup_steps = 1};
  EXPECT_THAT(std::string((*MakeStrategy(spec))->MakePlan(model, cluster).status().message()),
              testing::AllOf(HasSubstr("the 3 replicas of a step of strategy 'parameter_server'"),
                             HasSubstr("set synchronized to false")));
  spec = StrategySpec();
  spec.type = "mirrored";
  spec.devices = {"cpu:0", "cpu:1"};
  EXPECT_TRUE((*MakeStrategy(spec))->MakePlan(model, {.workers = {0}}).ok()) << "its replicas do";
}

TEST(MakeStrategy, UnknownTypesAndWrongPartitionersAreErrors) {
  StrategySpec spec;
  spec.type = "tpu";
  EXPECT_THAT(std::string(MakeStrategy(spec).status().message()), HasSubstr("'tpu'"));
  StrategySpec wrong;
  wrong.partitioner = FixedShardsPartitionerSpec{0};
  EXPECT_THAT(std::string(MakeStrategy(wrong).status().message()), HasSubstr("num_shards"));
}

}  // namespace
}  // namespace cohort
