// Plans of the strategies that train in one worker, by equality.

#include "coordinator/strategy/local_strategy.h"

#include <map>

#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/make_strategy.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/ps.pb.h"
#include "tests/unit/coordinator/strategy/planned.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ClusterShape kOneWorker = {.workers = {0}};
const ClusterShape kTwoGpus = {.workers = {0}, .devices = {"gpu:0", "gpu:1"}};
const ClusterShape kProcessor = {.workers = {0}, .devices = {"cpu:0"}};

std::vector<std::string> DevicesOf(const absl::StatusOr<Plan>& plan) {
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto& devices = plan->train_step.replicas().devices();
  for (const proto::Program* program : {&plan->eval_step, &plan->predict}) {
    EXPECT_EQ(program->replicas().devices_size(), devices.size());
  }
  return {devices.begin(), devices.end()};
}

std::string Error(const StrategySpec& spec, const ClusterShape& cluster = kOneWorker) {
  return PlanError(spec, cluster);
}

constexpr char kLayouts[] = R"(
  variables {
    name: "dense/kernel" dtype: 1 dims: 6
    slices { row_count: 6 ps: 3 }
    rule { op: "adam" }
    initializer { op: "zeros" }
  }
  variables {
    name: "dense/bias" dtype: 1 dims: 6
    slices { slice_id: 1 row_count: 6 ps: 3 }
    rule { op: "adam" }
    initializer { op: "zeros" }
  }
)";

TEST(LocalStrategy, EveryVariableIsOneSliceInTheWorker) {
  proto::CreateVariablesRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kLayouts, &expected));
  for (const std::string type : {"one_device", "mirrored", "central_storage", "default"}) {
    const auto plan = PlanOf(SpecOf(type), {.workers = {3}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->homes, Role::kWorker);
    EXPECT_TRUE(plan->gangs);
    proto::CreateVariablesRequest made;
    for (const auto& layout : plan->variables) *made.add_variables() = layout;
    EXPECT_EQ(made.DebugString(), expected.DebugString()) << type;
    proto::Program train = SmallModel().train_step;
    train.mutable_replicas()->add_devices("cpu:0");
    if (type == "mirrored") train.mutable_replicas()->set_num_packs(1);
    if (type == "central_storage") {
      train.mutable_replicas()->set_cross_device_ops(proto::REDUCTION_TO_ONE_DEVICE);
    }
    EXPECT_EQ(plan->train_step.DebugString(), train.DebugString()) << type;
    EXPECT_EQ((*MakeStrategy(SpecOf(type)))->NumReplicasInSync({.workers = {3}}), 1);
  }
}

TEST(LocalStrategy, AReplicaRunsOnEachDevice) {
  StrategySpec spec = SpecOf("mirrored");
  spec.devices = {"/cpu:0", "/device:CPU:1", "CPU:2"};
  EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("cpu:0", "cpu:1", "cpu:2"));
  EXPECT_EQ((*MakeStrategy(spec))->NumReplicasInSync({}), 3);
  spec.type = "central_storage";
  EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("cpu:0"))
      << "`devices` is mirrored's";
  spec.compute_devices = {"gpu:0", "gpu:1"};
  EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("gpu:0", "gpu:1"));
  spec.type = "one_device";
  spec.device = "/gpu:1";
  EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("gpu:1"));
  spec.type = "default";
  EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("cpu:0"));
}

TEST(LocalStrategy, NoListOfDevicesMeansAllThatTheWorkerHas) {
  for (const char* const type : {"mirrored", "central_storage"}) {
    const StrategySpec spec = SpecOf(type);
    EXPECT_TRUE((*MakeStrategy(spec))->TakesAllDevices()) << type;
    EXPECT_THAT(DevicesOf(PlanOf(spec, kTwoGpus)), ElementsAre("gpu:0", "gpu:1")) << type;
    EXPECT_EQ((*MakeStrategy(spec))->NumReplicasInSync(kTwoGpus), 2) << type;
    EXPECT_THAT(PlanOf(spec, kTwoGpus)->notes, IsEmpty()) << type;
    EXPECT_THAT(DevicesOf(PlanOf(spec, kProcessor)), ElementsAre("cpu:0")) << type;
    EXPECT_THAT(PlanOf(spec, kProcessor)->notes, IsEmpty()) << type;
    EXPECT_THAT(DevicesOf(PlanOf(spec, kOneWorker)), ElementsAre("cpu:0")) << "nobody was asked";
    EXPECT_THAT(PlanOf(spec, kOneWorker)->notes, ElementsAre(HasSubstr("no devices are named")));
  }
  EXPECT_EQ(ValuesOfOnRead(SpecOf("mirrored"), kTwoGpus), 2);
  StrategySpec named = SpecOf("mirrored");
  named.devices = {"gpu:1"};
  named.compute_devices = {"gpu:1"};
  for (const char* const type : {"mirrored", "central_storage"}) {
    named.type = type;
    EXPECT_FALSE((*MakeStrategy(named))->TakesAllDevices()) << type;
    EXPECT_THAT(DevicesOf(PlanOf(named, kTwoGpus)), ElementsAre("gpu:1")) << type;
  }
  for (const char* const type : {"one_device", "default", "parameter_server"}) {
    EXPECT_FALSE((*MakeStrategy(SpecOf(type)))->TakesAllDevices()) << type;
  }
  EXPECT_THAT(DevicesOf(PlanOf(SpecOf("default"), kTwoGpus)), ElementsAre("cpu:0"));
}

TEST(LocalStrategy, OnlyMirroredVariablesHaveAValueOfEachReplica) {
  StrategySpec spec = SpecOf("mirrored");
  EXPECT_EQ(ValuesOfOnRead(spec, kOneWorker), 1);
  spec.devices = {"cpu:0", "cpu:1", "cpu:2"};
  EXPECT_EQ(ValuesOfOnRead(spec, kOneWorker), 3);
  spec = SpecOf("central_storage");
  spec.compute_devices = {"cpu:0", "cpu:1"};
  EXPECT_EQ(ValuesOfOnRead(spec, kOneWorker), 0);
  EXPECT_EQ(ValuesOfOnRead(SpecOf("one_device"), kOneWorker), 0);
}

TEST(LocalStrategy, DevicesThatAreWrongAreNamed) {
  StrategySpec spec = SpecOf("mirrored");
  spec.devices = {"cpu:0", "tpu:1"};
  EXPECT_THAT(Error(spec), AllOf(HasSubstr("strategy.devices"), HasSubstr("'tpu:1'")));
  spec.devices = {"cpu:1", "CPU:1"};
  EXPECT_THAT(Error(spec),
              AllOf(HasSubstr("strategy.devices"), HasSubstr("cpu:1"), HasSubstr("twice")));
  spec = SpecOf("one_device");
  spec.device = "";
  EXPECT_THAT(Error(spec), HasSubstr("strategy.device"));
  spec = SpecOf("central_storage");
  spec.parameter_device = "gpu";
  EXPECT_THAT(Error(spec), AllOf(HasSubstr("strategy.parameter_device"), HasSubstr("'gpu'")));
}

TEST(LocalStrategy, NcclIsForGpus) {
  StrategySpec spec = SpecOf("mirrored");
  for (const char* const ops : {"auto", "hierarchical_copy", "reduction_to_one_device"}) {
    spec.cross_device_ops = ops;
    EXPECT_TRUE(PlanOf(spec, kOneWorker).ok()) << ops;
  }
  spec.cross_device_ops = "nccl";
  EXPECT_TRUE(PlanOf(spec, kOneWorker).ok()) << "what the worker has is not known";
  EXPECT_TRUE(PlanOf(spec, kTwoGpus).ok());
  const std::string nothing_else = Error(spec, kProcessor);
  EXPECT_THAT(nothing_else, AllOf(HasSubstr("'nccl'"), HasSubstr("cpu:0")));
  spec.devices = {"cpu:0"};
  EXPECT_EQ(std::string(MakeStrategy(spec).status().message()), nothing_else);
  spec.devices = {"gpu:0", "gpu:1"};
  EXPECT_TRUE(PlanOf(spec, kOneWorker).ok());
  spec.devices = {"gpu:0", "/device:GPU:0"};
  EXPECT_THAT(Error(spec), AllOf(HasSubstr("'nccl', which joins GPUs, each once"),
                                 HasSubstr("replica 1 is on gpu:0 as one before it")));
  spec.cross_device_ops = "auto";
  EXPECT_TRUE(PlanOf(spec, kOneWorker).ok()) << "two logical devices on one GPU";
  spec = SpecOf("central_storage");
  spec.cross_device_ops = "nccl";
  EXPECT_TRUE(PlanOf(spec, kProcessor).ok()) << "it is mirrored's";
}

TEST(LocalStrategy, HowGpusAreJoinedIsMirroredsToSay) {
  StrategySpec spec = SpecOf("mirrored");
  spec.num_packs = 3;
  const std::map<std::string, proto::CrossDeviceOps> ways = {
      {"auto", proto::AUTO_CROSS_DEVICE_OPS},
      {"nccl", proto::NCCL_ALL_REDUCE},
      {"hierarchical_copy", proto::HIERARCHICAL_COPY},
      {"reduction_to_one_device", proto::REDUCTION_TO_ONE_DEVICE}};
  for (const auto& [ops, way] : ways) {
    spec.cross_device_ops = ops;
    spec.type = "mirrored";
    const auto plan = PlanOf(spec, kTwoGpus);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->train_step.replicas().cross_device_ops(), way) << ops;
    EXPECT_EQ(plan->train_step.replicas().num_packs(), 3);
    EXPECT_THAT(plan->notes, IsEmpty());
    for (const proto::Program* program : {&plan->eval_step, &plan->predict}) {
      EXPECT_EQ(program->replicas().cross_device_ops(), proto::AUTO_CROSS_DEVICE_OPS)
          << "NCCL joins a GPU once at a time";
    }
    spec.type = "central_storage";
    EXPECT_EQ(PlanOf(spec, kTwoGpus)->train_step.replicas().cross_device_ops(),
              proto::REDUCTION_TO_ONE_DEVICE);
    spec.type = "one_device";
    EXPECT_EQ(PlanOf(spec, kTwoGpus)->train_step.replicas().cross_device_ops(),
              proto::AUTO_CROSS_DEVICE_OPS);
  }
}

TEST(LocalStrategy, AClusterThatDoesNotFitIsRefused) {
  EXPECT_THAT(Error(SpecOf("mirrored"), {.ps = {0}, .workers = {0}}),
              AllOf(HasSubstr("'mirrored'"), HasSubstr("1 ps"), HasSubstr("--local worker=1")));
  EXPECT_THAT(Error(SpecOf("one_device"), {.workers = {0, 1}}), HasSubstr("the cluster has 2"));
  EXPECT_THAT(Error(SpecOf("default"), {}), HasSubstr("the cluster has 0"));
}

TEST(LocalStrategy, AnUnknownTypeIsAnsweredWithTheKnownOnes) {
  EXPECT_THAT(Error(SpecOf("tpu")), AllOf(HasSubstr("'tpu'"), HasSubstr("central_storage")));
}

TEST(DeviceName, TakesTensorFlowsForms) {
  EXPECT_EQ(*CanonicalDevice("/job:localhost/replica:0/task:0/device:GPU:2"), "gpu:2");
  for (const char* const wrong : {"", "cpu", "cpu:", "cpu:x", "cpu:-1", "gpu", ":0"}) {
    EXPECT_FALSE(CanonicalDevice(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace cohort
