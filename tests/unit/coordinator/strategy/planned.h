#pragma once

// Plans of a small model, for tests of strategies that need no parameter server.

#include <string>

#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/strategy.h"
#include "gtest/gtest.h"

namespace cohort {

// Two variables, and programs that are only bindings.
inline ModelPrograms SmallModel() {
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
  model.eval_step.set_name("eval_step");
  model.predict.set_name("predict");
  return model;
}

inline StrategySpec SpecOf(const std::string& type) {
  StrategySpec spec;
  spec.type = type;
  return spec;
}

inline absl::StatusOr<Plan> PlanOf(const StrategySpec& spec, const ClusterShape& cluster,
                                   const ModelPrograms& model = SmallModel()) {
  auto strategy = MakeStrategy(spec);
  if (!strategy.ok()) return strategy.status();
  return (*strategy)->MakePlan(model, cluster);
}

// Of what cannot be planned.
inline std::string PlanError(const StrategySpec& spec, const ClusterShape& cluster) {
  const auto plan = PlanOf(spec, cluster);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  return std::string(plan.status().message());
}

// How many values the plan has of an ON_READ variable; 0 where all replicas share one.
inline int64_t ValuesOfOnRead(const StrategySpec& spec, const ClusterShape& cluster) {
  ModelPrograms model = SmallModel();
  VariableSpec& count = model.variables.emplace_back();
  count.name = "count";
  count.initializer.set_op("zeros");
  count.trainable = false;
  count.synchronization = VariableSynchronization::kOnRead;
  const auto plan = PlanOf(spec, cluster, model);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->variables.back().replicas();
}

}  // namespace cohort
