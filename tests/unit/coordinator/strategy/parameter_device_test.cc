// Which variables are in the memory of which GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "coordinator/strategy/local_strategy.h"
#include "coordinator/strategy/make_strategy.h"
#include "tests/unit/coordinator/strategy/planned.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::Pair;

const ClusterShape kProcessor = {.workers = {0}, .devices = {"cpu:0"}};
const ClusterShape kOneGpu = {.workers = {0}, .devices = {"gpu:0"}};
const ClusterShape kTwoGpus = {.workers = {0}, .devices = {"gpu:0", "gpu:1"}};

// The device of the first variable.
std::string HomeOf(const StrategySpec& spec, const ClusterShape& cluster) {
  const auto plan = PlanOf(spec, cluster);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->variables[0].device();
}

StrategySpec CentralStorage(const std::string& parameter_device,
                            std::vector<std::string> compute_devices = {}) {
  StrategySpec spec = SpecOf("central_storage");
  spec.parameter_device = parameter_device;
  spec.compute_devices = std::move(compute_devices);
  return spec;
}

TEST(ParameterDevice, TheOnlyGpuHasTheVariablesWhereNothingIsNamed) {
  EXPECT_EQ(HomeOf(CentralStorage(""), kOneGpu), "gpu:0");
  EXPECT_EQ(HomeOf(CentralStorage(""), kTwoGpus), "");
  EXPECT_EQ(HomeOf(CentralStorage(""), kProcessor), "");
  EXPECT_EQ(HomeOf(CentralStorage("", {"gpu:1"}), kTwoGpus), "gpu:1");
  EXPECT_EQ(HomeOf(CentralStorage("", {"gpu:0", "cpu:0"}), kOneGpu), "");
}

TEST(ParameterDevice, TheOneThatIsNamedHasThem) {
  EXPECT_EQ(HomeOf(CentralStorage("/device:GPU:1"), kTwoGpus), "gpu:1");
  EXPECT_EQ(HomeOf(CentralStorage("cpu:0"), kOneGpu), "");
  EXPECT_EQ(HomeOf(CentralStorage("gpu:0", {"cpu:0"}), kProcessor), "gpu:0");
}

TEST(ParameterDevice, OfOtherStrategiesItIsThatOfTheOneReplica) {
  StrategySpec spec = SpecOf("one_device");
  spec.parameter_device = "gpu:1";  // is of central_storage
  EXPECT_EQ(HomeOf(spec, kOneGpu), "");
  spec.device = "gpu:0";
  EXPECT_EQ(HomeOf(spec, kOneGpu), "gpu:0");
  EXPECT_EQ(HomeOf(SpecOf("default"), kOneGpu), "");
  EXPECT_EQ(HomeOf(SpecOf("mirrored"), kOneGpu), "");
}

TEST(ParameterDevice, TablesCountersAndStatisticsStayWithTheProcessor) {
  ModelPrograms model = SmallModel();
  const auto add = [&](const std::string& name, const auto& change) {
    VariableSpec variable;
    variable.name = name;
    variable.shape = Shape{4, 2};
    variable.initializer.set_op("zeros");
    change(variable);
    model.variables.push_back(variable);
  };
  add("table", [](VariableSpec&) {});
  proto::InputBinding* const lookup = model.eval_step.add_inputs();
  lookup->set_batch_component(0);
  lookup->set_rows_of("table");
  add("moving_mean", [](VariableSpec& variable) { variable.trainable = false; });
  add("counter", [](VariableSpec& variable) {
    variable.trainable = false;
    variable.dtype = DType::kInt64;
  });
  const auto plan = (*MakeStrategy(CentralStorage("gpu:0")))->MakePlan(model, kOneGpu);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::map<std::string, std::string> devices;
  for (const auto& layout : plan->variables) devices[layout.name()] = layout.device();
  EXPECT_THAT(devices, ElementsAre(Pair("counter", ""), Pair("dense/bias", "gpu:0"),
                                   Pair("dense/kernel", "gpu:0"), Pair("moving_mean", ""),
                                   Pair("table", "")));
  EXPECT_EQ(plan->placement[0].reason, "it is trained on gpu:0");
  EXPECT_EQ(plan->placement[2].reason, "every variable is in the worker's own memory");
}

}  // namespace
}  // namespace cohort
