// Plans of the strategy that trains in all workers, by equality.

#include "coordinator/strategy/multi_worker_mirrored_strategy.h"

#include "coordinator/strategy/make_strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/strategy/planned.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

StrategySpec Spec() { return SpecOf(kMultiWorkerMirrored); }

ModelPrograms ModelForReplicas() {
  ModelPrograms model = SmallModel();
  model.replicated_train_step = model.train_step;
  model.replicated_train_step.set_name("replicated_train_step");
  return model;
}

TEST(MultiWorkerMirroredStrategy, EveryVariableIsInEveryWorkerAndReadFromTheFirst) {
  const auto plan = PlanOf(Spec(), {.workers = {2, 3, 7}}, ModelForReplicas());
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
  EXPECT_EQ(ValuesOfOnRead(spec, {.workers = {0, 1, 2}}), 6);
  const auto alone = PlanOf(Spec(), {.workers = {0}}, ModelForReplicas());
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->train_step.name(), "train_step") << "one replica";
}

TEST(MultiWorkerMirroredStrategy, NoListOfDevicesMeansAllThatEachWorkerHas) {
  const ClusterShape gpus = {.workers = {0, 1, 2}, .devices = {"gpu:0", "gpu:1"}};
  const auto plan = PlanOf(Spec(), gpus);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->train_step.replicas().devices(), ElementsAre("gpu:0", "gpu:1"));
  EXPECT_THAT(plan->notes, testing::IsEmpty());
  EXPECT_EQ((*MakeStrategy(Spec()))->NumReplicasInSync(gpus), 6);
  EXPECT_EQ(ValuesOfOnRead(Spec(), gpus), 6);
  EXPECT_TRUE((*MakeStrategy(Spec()))->TakesAllDevices());
  EXPECT_THAT(PlanOf(Spec(), {.workers = {0}})->notes,
              ElementsAre(HasSubstr("no devices are named")));
  StrategySpec spec = Spec();
  spec.devices = {"cpu:0"};
  EXPECT_FALSE((*MakeStrategy(spec))->TakesAllDevices());
  EXPECT_EQ((*MakeStrategy(spec))->NumReplicasInSync(gpus), 3);
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
  EXPECT_FALSE(options.nccl());
  spec.communication.implementation = "nccl";
  spec.devices = {"gpu:0"};
  const auto over_nccl = PlanOf(spec, {.workers = {0, 1}});
  ASSERT_TRUE(over_nccl.ok()) << over_nccl.status();
  EXPECT_TRUE(over_nccl->train_step.replicas().communication().nccl());
}

TEST(MultiWorkerMirroredStrategy, WorkersJoinOverNcclByTheirFirstGpu) {
  StrategySpec spec = Spec();
  spec.devices = {"/device:GPU:2", "gpu:0"};
  EXPECT_EQ(NcclDeviceOf(spec), std::nullopt);
  spec.communication.implementation = "nccl";
  EXPECT_EQ(NcclDeviceOf(spec), 2);
  spec.devices = {};
  EXPECT_EQ(NcclDeviceOf(spec), 0) << "all that a worker has begin with it";
  spec.type = "mirrored";
  EXPECT_EQ(NcclDeviceOf(spec), std::nullopt);
}

TEST(MultiWorkerMirroredStrategy, WhatDoesNotFitIsRefusedByName) {
  EXPECT_THAT(PlanError(Spec(), {.ps = {0}, .workers = {0}}),
              AllOf(HasSubstr("1 ps"), HasSubstr("--local worker=3")));
  EXPECT_THAT(PlanError(Spec(), {}), HasSubstr("needs workers"));
  StrategySpec spec = Spec();
  spec.communication.implementation = "nccl";
  EXPECT_TRUE(PlanOf(spec, {.workers = {0}}).ok()) << "what it has is not known";
  const std::string processor = PlanError(spec, {.workers = {0}, .devices = {"cpu:0"}});
  EXPECT_THAT(processor, AllOf(HasSubstr("strategy.communication_options.implementation"),
                               HasSubstr("cpu:0")));
  spec.devices = {"cpu:0"};
  EXPECT_EQ(PlanError(spec, {.workers = {0}}), processor);
  spec.devices = {"gpu:0"};
  EXPECT_TRUE(PlanOf(spec, {.workers = {0}}).ok());
}

}  // namespace
}  // namespace cohort
