// Models of images against Keras (tests/golden/keras/make_images.py), on the reference kernels.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/program/program.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/update_kernel.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-5;  // what float32 loses in TensorFlow where gradients cancel

Shape ShapeOf(const json& dims) { return Shape(dims.get<std::vector<int64_t>>()); }

struct ImageCase {
  json golden;
  JobSpec job;
  ModelPrograms programs;
  std::vector<Tensor> batch;

  std::map<std::string, Tensor> Values(const json& weights) const {
    std::map<std::string, Tensor> values;
    for (size_t i = 0; i < programs.variables.size(); ++i) {
      const VariableSpec& variable = programs.variables[i];
      values[variable.name] = FloatTensor(weights.at(i), variable.shape);
    }
    return values;
  }
};

ImageCase Load(const json& golden) {
  ImageCase one;
  one.golden = golden;
  const Shape x = ShapeOf(golden.at("dims"));
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  dims[0] = -1;
  absl::StatusOr<JobSpec> job =
      MakeJob(golden.at("model"), golden.at("optimizer"), "sparse_categorical_crossentropy",
              json::array({"accuracy"}));
  EXPECT_TRUE(job.ok()) << job.status();
  one.job = *std::move(job);
  absl::StatusOr<ModelPrograms> programs = BuildPrograms(
      one.job, Batch(Component(DType::kFloat32, dims), Component(DType::kInt64, {-1})));
  EXPECT_TRUE(programs.ok()) << programs.status();
  if (programs.ok()) one.programs = *std::move(programs);
  one.batch = {FloatTensor(golden.at("x"), x), Int64Tensor(golden.at("y"), {x.dim(0)})};
  return one;
}

class KerasImages : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const json golden = ReadGolden("keras/images.json");
    for (const json& one : golden.at("cases")) {
      if (one.at("name") == GetParam()) case_ = Load(one);
    }
    ASSERT_FALSE(case_.programs.variables.empty());
  }

  ImageCase case_;
};

// Keras puts a sequential model's name in front of its layers'.
TEST_P(KerasImages, VariablesAreKerasVariables) {
  const json& golden = case_.golden;
  ASSERT_EQ(case_.programs.variables.size(), golden.at("names").size());
  for (size_t i = 0; i < case_.programs.variables.size(); ++i) {
    const VariableSpec& variable = case_.programs.variables[i];
    const std::string name = golden.at("names").at(i);
    const std::string prefix = golden.at("name").get<std::string>() + "/";
    EXPECT_EQ(variable.name, name.starts_with(prefix) ? name.substr(prefix.size()) : name);
    EXPECT_EQ(variable.shape, ShapeOf(golden.at("shapes").at(i))) << variable.name;
    EXPECT_EQ(variable.trainable, golden.at("trainable").at(i).get<bool>()) << variable.name;
  }
}

TEST_P(KerasImages, LossMetricAndGradients) {
  const json& golden = case_.golden;
  const auto outputs =
      RunProgram(case_.programs.train_step, case_.batch, case_.Values(golden.at("weights")));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const double loss_sum = golden.at("loss_sum");
  EXPECT_NEAR(*(*outputs)[0].data<float>(), loss_sum, 1e-5 * loss_sum);
  EXPECT_EQ(*(*outputs)[1].data<float>(), golden.at("batch").get<float>());
  EXPECT_NEAR((*outputs)[2].data<double>()[0], golden.at("metric_sum").get<double>(), 1e-5);
  size_t position = 0;
  for (int i = 3; i < case_.programs.train_step.outputs_size(); ++i) {
    const proto::OutputBinding& binding = case_.programs.train_step.outputs(i);
    if (!binding.has_push()) continue;
    const Tensor& gradient = (*outputs)[static_cast<size_t>(i)];
    const Tensor expected = FloatTensor(golden.at("gradients").at(position++), gradient.shape());
    EXPECT_LT(LargestError(gradient, expected), kTolerance) << binding.push();
  }
  EXPECT_EQ(position, golden.at("gradients").size());
}

TEST_P(KerasImages, EvaluationAndPredictionUseTheMovingStatistics) {
  const json& golden = case_.golden;
  const auto values = case_.Values(golden.at("weights"));
  const auto predicted = RunProgram(case_.programs.predict, case_.batch, values);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  const Shape shape = {golden.at("batch").get<int64_t>(), golden.at("classes").get<int64_t>()};
  EXPECT_LT(LargestError(predicted->at(0), FloatTensor(golden.at("predictions"), shape)),
            kTolerance);
  double loss_sum = 0;
  for (int64_t n = 0; n < shape.dim(0); ++n) {
    const int64_t label = golden.at("y").at(n);
    loss_sum -= std::log(golden.at("predictions").at(n * shape.dim(1) + label).get<double>());
  }
  const auto evaluated = RunProgram(case_.programs.eval_step, case_.batch, values);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  ASSERT_EQ(evaluated->size(), 3u);
  EXPECT_NEAR(*(*evaluated)[0].data<float>(), loss_sum, 1e-5 * loss_sum);
}

// Variables as a ps has them: gradients by the rule, assigned values as they are.
// Thread-compatible.
class Trained {
 public:
  Trained(const ImageCase& one, const UpdateKernel& kernel, const UpdateRuleSpec& rule)
      : case_(one), kernel_(kernel), values_(one.Values(one.golden.at("weights"))) {
    for (const auto& [name, value] : values_) {
      for (const SlotSpec& slot : rule.slots) {
        slots_[name].emplace_back(value.num_elements(), slot.initial_value);
      }
    }
  }

  const Tensor& value(const std::string& name) const { return values_.at(name); }

  void Step(uint64_t step) {
    const proto::Program& program = case_.programs.train_step;
    const auto outputs = RunProgram(program, case_.batch, values_);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const double rate = LearningRateAt(case_.job.compile.optimizer, static_cast<int64_t>(step) - 1);
    for (int i = 0; i < program.outputs_size(); ++i) {
      const Tensor& output = (*outputs)[static_cast<size_t>(i)];
      const proto::OutputBinding& binding = program.outputs(i);
      if (binding.has_assign()) values_[binding.assign()] = output;
      if (binding.has_push()) Apply(binding.push(), output, rate, step);
    }
  }

 private:
  void Apply(const std::string& name, const Tensor& gradient, double rate, uint64_t step) {
    Tensor next = values_[name].Clone();
    UpdateStep update;
    update.gradient = gradient.span<float>();
    update.value_in = values_[name].span<float>();
    update.value_out =
        absl::MakeSpan(next.mutable_data<float>(), static_cast<size_t>(next.num_elements()));
    for (auto& slot : slots_[name]) update.slots.push_back({slot, absl::MakeSpan(slot)});
    update.learning_rate = rate;
    update.step = step;
    kernel_.Apply(update);
    values_[name] = std::move(next);
  }

  const ImageCase& case_;
  const UpdateKernel& kernel_;
  std::map<std::string, Tensor> values_;
  std::map<std::string, std::vector<std::vector<float>>> slots_;
};

TEST_P(KerasImages, WeightsAndStatisticsAfterEachOfThreeSteps) {
  const auto rule = DescribeUpdateRule(case_.programs.update_rule);
  const auto kernel = MakeUpdateKernel(case_.programs.update_rule);
  ASSERT_TRUE(rule.ok() && kernel.ok()) << rule.status() << kernel.status();
  Trained trained(case_, **kernel, *rule);
  const json& steps = case_.golden.at("after_step");
  for (size_t t = 0; t < steps.size(); ++t) {
    trained.Step(t + 1);
    for (size_t i = 0; i < case_.programs.variables.size(); ++i) {
      const VariableSpec& variable = case_.programs.variables[i];
      EXPECT_LT(
          LargestError(trained.value(variable.name), FloatTensor(steps[t].at(i), variable.shape)),
          2e-5)
          << variable.name << " after step " << t + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KerasImages, testing::Values("digits", "windows", "branches"));

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

absl::Status BuildError(const json& layers, const std::vector<int64_t>& dims) {
  const json model = {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
  const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
  if (!job.ok()) return job.status();
  return BuildPrograms(*job,
                       Batch(Component(DType::kFloat32, dims), Component(DType::kInt64, {-1})))
      .status();
}

TEST(ImageLayers, WhatDoesNotFitIsAnErrorThatSaysWhatWould) {
  const json conv = Layer("Conv2D", {{"name", "c"}, {"filters", 2}, {"kernel_size", 5}});
  const json dense = Layer("Dense", {{"units", 3}});
  const json flatten = Layer("Flatten", json::object());
  const auto text = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(text(BuildError({conv, flatten, dense}, {-1, 28, 28})),
              HasSubstr("layer 'c' is given examples of shape [28,28]; it needs [rows, columns, "
                        "channels]; a Reshape layer"));
  EXPECT_THAT(text(BuildError({conv, flatten, dense}, {-1, 4, 8, 1})),
              HasSubstr("its window of 5 does not fit into 4 rows; padding 'same' makes room"));
  const json grouped =
      Layer("Conv2D", {{"name", "g"}, {"filters", 4}, {"kernel_size", 1}, {"groups", 2}});
  EXPECT_THAT(text(BuildError({grouped, flatten, dense}, {-1, 4, 4, 3})),
              HasSubstr("2 groups do not divide their channels"));
  const json norm = Layer("BatchNormalization", {{"name", "n"}, {"axis", 4}});
  EXPECT_THAT(text(BuildError({norm, flatten, dense}, {-1, 4, 4, 3})),
              HasSubstr("its axis 4 is not one of theirs"));
  const json reshape = Layer("Reshape", {{"name", "r"}, {"target_shape", {5, -1}}});
  EXPECT_THAT(text(BuildError({reshape, flatten, dense}, {-1, 16})),
              HasSubstr("its target_shape does not hold their 16 elements"));
}

TEST(ImageLayers, OnlySynchronizedStatisticsAreExchanged) {
  for (const bool synchronized : {false, true}) {
    const json layers = {Layer("Dense", {{"units", 3}}),
                         Layer("BatchNormalization", {{"synchronized", synchronized}})};
    const json model = {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
    const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
    ASSERT_TRUE(job.ok()) << job.status();
    const auto programs = BuildPrograms(
        *job, Batch(Component(DType::kFloat32, {-1, 4}), Component(DType::kInt64, {-1})));
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_EQ(programs->exchanges, synchronized);
  }
}

}  // namespace
}  // namespace cohort
