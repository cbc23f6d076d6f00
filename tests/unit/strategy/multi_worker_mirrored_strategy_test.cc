// Plans of the strategy that trains in all workers, by equality.

#include "coordinator/strategy/multi_worker_mirrored_strategy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ModelPrograms Model() {
  ModelPrograms model;
  model.update_rule.set_op("adam");
  for (const char* const name : {"dense/kernel", "dense/bias"}) {
    VariableSpec& variable = model.variables.emplace_back();
    variable.name = name;
    variable.shape = Shape{6};
    variable.initializer.set_op("zeros");
    model.train_step.add_inputs()->set_variable(name);
    model.train_step.add_outputs()->set_push(name);
  }
  model.train_step.set_name("train_step");
  model.replicated_train_step = model.train_step;
  model.replicated_train_step.set_name("replicated_train_step");
  model.eval_step.set_name("eval_step");
  model.predict.set_name("predict");
  return model;
}

StrategySpec Spec() {
  StrategySpec spec;
  spec.type = kMultiWorkerMirrored;
  return spec;
}

absl::StatusOr<Plan> PlanOf(const StrategySpec& spec, const ClusterShape& cluster) {
  auto strategy = MakeStrategy(spec);
  if (!strategy.ok()) return strategy.status();
  return (*strategy)->MakePlan(Model(), cluster);
}

std::string Error(const StrategySpec& spec, const ClusterShape& cluster) {
  const auto plan = PlanOf(spec, cluster);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  return std::string(plan.status().message());
}

TEST(MultiWorkerMirroredStrategy, EveryVariableIsInEveryWorkerAndReadFromTheFirst) {
  const auto plan = PlanOf(Spec(), {.workers = {2, 3, 7}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->homes, Role::kWorker);
  EXPECT_TRUE(plan->gangs);
  ASSERT_EQ(plan->variables.size(), 2u);
  for (const proto::VariableLayout& layout : plan->variables) {
    EXPECT_TRUE(layout.mirrored());
    ASSERT_EQ(layout.slices_size(), 1);
    EXPECT_EQ(layout.slices(0).ps(), 2u);
  }
  EXPECT_EQ(plan->train_step.name(), "replicated_train_step");
  EXPECT_TRUE(plan->train_step.replicas().has_communication());
  for (const proto::Program* alone : {&plan->eval_step, &plan->predict}) {
    EXPECT_FALSE(alone->replicas().has_communication()) << alone->name();
  }
}

TEST(MultiWorkerMirroredStrategy, AReplicaRunsOnEachDeviceOfEachWorker) {
  StrategySpec spec = Spec();
  spec.devices = {"/cpu:0", "CPU:1"};
  const auto plan = PlanOf(spec, {.workers = {0, 1, 2}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->train_step.replicas().devices(), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_THAT(plan->eval_step.replicas().devices(), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ((*MakeStrategy(spec))->NumReplicasInSync({.workers = {0, 1, 2}}), 6);
  const auto alone = PlanOf(Spec(), {.workers = {0}});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->train_step.name(), "train_step") << "one replica";
}

TEST(MultiWorkerMirroredStrategy, CommunicationOptionsTravelWithTheTrainStep) {
  StrategySpec spec = Spec();
  spec.communication = {"ring", 4096, 1.5, "float16"};
  const auto plan = PlanOf(spec, {.workers = {0, 1}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const proto::Communication& options = plan->train_step.replicas().communication();
  EXPECT_TRUE(options.ring());
  EXPECT_EQ(options.bytes_per_pack(), 4096);
  EXPECT_EQ(options.timeout_ms(), 1500);
  EXPECT_EQ(options.gradient_dtype(), static_cast<int32_t>(DType::kFloat16));
}

TEST(MultiWorkerMirroredStrategy, WhatDoesNotFitIsRefusedByName) {
  EXPECT_THAT(Error(Spec(), {.ps = {0}, .workers = {0}}),
              AllOf(HasSubstr("1 ps"), HasSubstr("--local worker=3")));
  EXPECT_THAT(Error(Spec(), {}), HasSubstr("needs workers"));
  StrategySpec spec = Spec();
  spec.communication.implementation = "nccl";
  EXPECT_THAT(Error(spec, {.workers = {0}}),
              AllOf(HasSubstr("strategy.communication_options.implementation"),
                    HasSubstr("cpu:0")));
  spec.devices = {"gpu:0"};
  EXPECT_TRUE(PlanOf(spec, {.workers = {0}}).ok());
}

}  // namespace
}  // namespace cohort
