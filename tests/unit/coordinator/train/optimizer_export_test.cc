// Which values an optimizer has in Keras's files. Names and numbers are those that Keras 2.15 and
// Keras 3.15 gave the same optimizers (`optimizer.variables`, and its attributes with lists).

#include "coordinator/train/optimizer_export.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/train/keras_compile.h"
#include "tests/unit/coordinator/train/exports_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A job that trains the variables d/kernel and d/bias by an optimizer.
class Optimized {
 public:
  explicit Optimized(const std::string& class_name, const json& config = json::object()) {
    const json dense = {{"class_name", "Dense"}, {"config", {{"name", "d"}, {"units", 1}}}};
    const json input = {{"class_name", "InputLayer"}, {"config", {{"batch_shape", {nullptr, 2}}}}};
    const json model = {{"class_name", "Sequential"}, {"config", {{"layers", {input, dense}}}}};
    const auto job =
        Parse(disk_, model, 1, json::object(),
              {{"optimizer", {{"class_name", class_name}, {"config", config}}}, {"loss", "mse"}});
    EXPECT_TRUE(job.ok()) << job.status();
    job_ = *job;
    const auto plan = PlanOf(job_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
  }

  KerasOptimizer Plan(int keras) const {
    return PlanKerasOptimizer(job_, State(), std::vector<std::string>{"d/kernel", "d/bias"}, keras);
  }
  // The values by their numbers, each as its ways in the object graph.
  std::vector<std::string> Numbers(int keras) const {
    std::vector<std::string> numbers;
    for (const KerasOptimizerValue& value : Plan(keras).values) {
      if (value.is_numbered) numbers.push_back(absl::StrJoin(value.tracked, " "));
    }
    return numbers;
  }
  // The ways of the values that have no number.
  std::vector<std::string> Unnumbered(int keras) const {
    std::vector<std::string> ways;
    for (const KerasOptimizerValue& value : Plan(keras).values) {
      if (!value.is_numbered) ways.push_back(absl::StrJoin(value.tracked, " "));
    }
    return ways;
  }
  Tensor Read(const std::string& name, int keras, float slot = 0) const {
    const auto read_slot = [&](const proto::VariableLayout&, const std::string&) {
      return absl::StatusOr<Tensor>(Tensor::FromVector<float>({slot}, Shape{1}));
    };
    const TrainedState state = {plan_.variables, kSteps, read_slot};
    for (const KerasOptimizerValue& value : Plan(keras).values) {
      if (value.name == name) return *ReadOptimizerValue(job_, state, value);
    }
    ADD_FAILURE() << name;
    return Tensor();
  }
  json Compiled() const { return json::parse(KerasCompileConfig(job_)); }

 private:
  static constexpr int64_t kSteps = 3;

  static absl::StatusOr<Tensor> NoSlot(const proto::VariableLayout&, const std::string&) {
    return absl::InternalError("not read");
  }
  TrainedState State() const { return {plan_.variables, kSteps, NoSlot}; }

  MemoryFileSystem disk_;
  JobSpec job_;
  ::cohort::Plan plan_;
};

TEST(KerasOptimizer, SlotsAlternateOrFollowAsTheClassDoes) {
  EXPECT_THAT(Optimized("Adam", {{"amsgrad", true}, {"use_ema", true}}).Numbers(3),
              ElementsAre("_iterations", "_learning_rate", "_model_variables_moving_average/0",
                          "_model_variables_moving_average/1", "_momentums/0", "_velocities/0",
                          "_momentums/1", "_velocities/1", "_velocity_hats/0", "_velocity_hats/1"));
  EXPECT_THAT(Optimized("RMSprop", {{"momentum", 0.5}, {"centered", true}}).Numbers(2),
              ElementsAre("_iterations", "_velocities/0", "_velocities/1", "_momentums/0",
                          "_momentums/1", "_average_gradients/0", "_average_gradients/1"));
  EXPECT_THAT(Optimized("Adamax").Numbers(2),
              ElementsAre("_iterations", "_m/0", "_u/0", "_m/1", "_u/1"));
  EXPECT_THAT(Optimized("Adadelta").Numbers(2),
              ElementsAre("_iterations", "_accumulated_grads/0", "_accumulated_delta_vars/0",
                          "_accumulated_grads/1", "_accumulated_delta_vars/1"));
  EXPECT_THAT(
      Optimized("Ftrl").Numbers(2),
      ElementsAre("_iterations", "_accumulators/0", "_linears/0", "_accumulators/1", "_linears/1"));
  // Keras 2 and Keras 3 name the list otherwise.
  EXPECT_THAT(Optimized("Lion").Numbers(2),
              ElementsAre("_iterations", "momentums/0 _momentums/0", "momentums/1 _momentums/1"));
}

TEST(KerasOptimizer, WhatOneKerasAloneHasIsForTheKerasOfTheModel) {
  const Optimized plain("SGD");
  EXPECT_THAT(plain.Numbers(2), ElementsAre("_iterations", "momentums/0", "momentums/1"));
  EXPECT_THAT(plain.Unnumbered(2), ElementsAre("_learning_rate"));
  EXPECT_THAT(plain.Numbers(3), ElementsAre("_iterations", "_learning_rate"));
  EXPECT_THAT(plain.Read("d/kernel/.OPTIMIZER_SLOT/sgd/momentum", 2).span<float>(),
              ElementsAre(0, 0));
  const Optimized nadam("Nadam");
  EXPECT_THAT(nadam.Numbers(3),
              ElementsAre("_iterations", "_learning_rate", "_momentums/0", "_velocities/0",
                          "_momentums/1", "_velocities/1", "_u_product"));
  EXPECT_THAT(nadam.Unnumbered(2), ElementsAre("_learning_rate", "_u_product"));
  // 0.9³ (1 − 0.96 / 2) (1 − 0.96² / 2) (1 − 0.96³ / 2)
  EXPECT_NEAR(nadam.Read("u_product", 3).span<float>()[0], 0.11397995, 1e-7);
  const json schedule = {
      {"class_name", "InverseTimeDecay"},
      {"config", {{"initial_learning_rate", 0.5}, {"decay_steps", 1}, {"decay_rate", 1}}}};
  const Optimized scheduled("SGD", {{"learning_rate", schedule}, {"momentum", 0.9}});
  EXPECT_THAT(scheduled.Numbers(3), ElementsAre("_iterations", "momentums/0", "momentums/1"));
  EXPECT_THAT(scheduled.Unnumbered(3), IsEmpty());
  EXPECT_THAT(scheduled.Unnumbered(2), ElementsAre("_current_learning_rate"));
  EXPECT_FLOAT_EQ(scheduled.Read("current_learning_rate", 2).span<float>()[0], 0.125);
}

TEST(KerasOptimizer, ASumOfGradientsGetsTheRate) {
  const Optimized sums(
      "SGD", {{"learning_rate", 0.5}, {"momentum", 0.9}, {"momentum_of_gradients", true}});
  EXPECT_THAT(sums.Read("d/bias/.OPTIMIZER_SLOT/sgd/momentum", 3, 4).span<float>(),
              ElementsAre(-2));
  EXPECT_FALSE(sums.Compiled()["optimizer"]["config"].contains("momentum_of_gradients"));
}

TEST(KerasOptimizer, WhatKerasCannotGoOnWithIsSaid) {
  for (const char* name : {"Lamb", "Adafactor", "RowwiseAdagrad"}) {
    const KerasOptimizer plan = Optimized(name).Plan(3);
    EXPECT_THAT(plan.values, IsEmpty()) << name;
    EXPECT_THAT(plan.why_not, HasSubstr(name));
  }
  EXPECT_THAT(Optimized("Muon").Plan(3).values, IsEmpty());
  const Optimized accumulating("Adam", {{"gradient_accumulation_steps", 2}});
  EXPECT_THAT(accumulating.Plan(2).why_not, HasSubstr("gradient_accumulation_steps"));
  EXPECT_THAT(accumulating.Numbers(3)[2], "_accumulated_gradients/0");
  EXPECT_THAT(Optimized("Nadam", {{"schedule_decay", 0.004}}).Plan(3).why_not,
              HasSubstr("before 2.11"));
  const json schedule = {
      {"class_name", "ExponentialDecay"},
      {"config", {{"initial_learning_rate", 0.5}, {"decay_steps", 1}, {"decay_rate", 1}}}};
  const Optimized changing(
      "SGD", {{"learning_rate", schedule}, {"momentum", 0.9}, {"momentum_of_gradients", true}});
  EXPECT_THAT(changing.Plan(3).why_not, HasSubstr("constant learning rate"));
}

TEST(KerasOptimizer, ArgumentsOfCompileAreThoseOfTheJob) {
  const json compiled =
      Optimized("Adam", {{"learning_rate", 0.5}, {"clipnorm", 1}, {"sparse_updates", "lazy"}})
          .Compiled();
  EXPECT_EQ(compiled["optimizer"]["module"], "keras.optimizers");
  EXPECT_EQ(compiled["optimizer"]["class_name"], "Adam");
  const json& config = compiled["optimizer"]["config"];
  EXPECT_EQ(config["learning_rate"], 0.5);
  EXPECT_EQ(config["clipnorm"], 1);
  EXPECT_TRUE(config["weight_decay"].is_null());
  EXPECT_FALSE(config.contains("sparse_updates"));
  EXPECT_EQ(compiled["loss"]["module"], "keras.losses");
  EXPECT_EQ(compiled["loss"]["class_name"], "MeanSquaredError");
}

}  // namespace
}  // namespace cohort
