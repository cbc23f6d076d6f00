// What Keras computes (tests/golden/keras/make_golden.py and make_functional.py) against our
// programs on the reference kernels. Embeddings have whole tables here, and then ids are positions
// in them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/program/gradients.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/update_kernel.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"
#include "tests/unit/coordinator/model/trained_variable.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr double kTolerance = 2e-6;

// One case of the golden file, built. Thread-compatible.
struct ParityCase {
  json golden;
  OptimizerSpec optimizer;
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

// Columns by name and then the labels.
void LoadColumns(const json& golden, ParityCase& one, proto::ElementSpec& element) {
  for (const json& column : golden.at("columns")) {
    const Shape shape(column.at("dims").get<std::vector<int64_t>>());
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims[0] = -1;
    const json& values = column.at("values");
    if (column.at("dtype") == "float32") {
      one.batch.push_back(FloatTensor(values, shape));
    } else if (column.at("dtype") == "int32") {
      one.batch.push_back(Tensor::FromVector<int32_t>(values.get<std::vector<int32_t>>(), shape));
    } else {
      one.batch.push_back(Int64Tensor(values, shape));
    }
    *element.add_components() = Component(one.batch.back().dtype(), dims);
    element.mutable_components()->rbegin()->set_name(column.at("name"));
  }
  one.batch.push_back(Int64Tensor(golden.at("y"), {golden.at("batch").get<int64_t>()}));
  *element.add_components() = Component(DType::kInt64, {-1});
  element.mutable_components()->rbegin()->set_name("label");
}

void LoadPair(const json& golden, ParityCase& one, proto::ElementSpec& element) {
  const bool sparse = golden.at("sparse").get<bool>();
  const int64_t n = golden.at("batch");
  const int64_t features = golden.at("features");
  const int64_t classes = golden.at("classes");
  element =
      Batch(Component(DType::kFloat32, {-1, features}),
            sparse ? Component(DType::kInt64, {-1}) : Component(DType::kFloat32, {-1, classes}));
  one.batch = {
      FloatTensor(golden.at("x"), {n, features}),
      sparse ? Int64Tensor(golden.at("y"), {n}) : FloatTensor(golden.at("y"), {n, classes})};
}

ParityCase Load(const json& golden) {
  ParityCase result;
  result.golden = golden;
  proto::ElementSpec element;
  const bool columns = golden.contains("columns");
  columns ? LoadColumns(golden, result, element) : LoadPair(golden, result, element);
  absl::StatusOr<JobSpec> job =
      MakeJob(golden.at("model"), golden.at("optimizer"),
              golden.value("loss", json("sparse_categorical_crossentropy")),
              json::array({golden.value("metric", json("accuracy"))}));
  EXPECT_TRUE(job.ok()) << job.status();
  absl::StatusOr<ModelPrograms> programs = BuildPrograms(*job, element);
  EXPECT_TRUE(programs.ok()) << programs.status();
  result.optimizer = job->compile.optimizer;
  result.programs = *std::move(programs);
  return result;
}

std::vector<ParityCase> LoadAll() {
  std::vector<ParityCase> cases;
  for (const char* name : {"keras/training.json", "keras/functional.json"}) {
    const json golden = ReadGolden(name);
    for (const json& one : golden.value("cases", json::array())) cases.push_back(Load(one));
  }
  EXPECT_EQ(cases.size(), 18u);
  return cases;
}

TEST(KerasParity, VariablesHaveKerasShapesInKerasOrder) {
  for (const ParityCase& one : LoadAll()) {
    ASSERT_EQ(one.programs.variables.size(), one.golden.at("shapes").size());
    for (size_t i = 0; i < one.programs.variables.size(); ++i) {
      if (one.golden.contains("names")) {
        EXPECT_EQ(one.programs.variables[i].name, one.golden.at("names").at(i));
      }
      EXPECT_EQ(one.programs.variables[i].shape,
                Shape(one.golden.at("shapes").at(i).get<std::vector<int64_t>>()));
    }
  }
}

TEST(KerasParity, LossMetricAndGradientsOfTheMeanLoss) {
  for (const ParityCase& one : LoadAll()) {
    SCOPED_TRACE(one.golden.at("name").get<std::string>());
    const auto outputs =
        RunProgram(one.programs.train_step, one.batch, one.Values(one.golden.at("weights")));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), 3 + one.programs.variables.size());
    const double loss_sum = one.golden.at("loss_sum");
    EXPECT_NEAR(*(*outputs)[0].data<float>(), loss_sum, 1e-5 * loss_sum);
    EXPECT_EQ(*(*outputs)[1].data<float>(), one.golden.at("batch").get<float>());
    EXPECT_NEAR((*outputs)[2].data<double>()[0], one.golden.at("metric_sum").get<double>(), 1e-5);
    for (size_t i = 0; i < one.programs.variables.size(); ++i) {
      const VariableSpec& variable = one.programs.variables[i];
      const Tensor expected = FloatTensor(one.golden.at("gradients").at(i), variable.shape);
      EXPECT_LT(LargestError((*outputs)[3 + i], expected), kTolerance) << variable.name;
    }
  }
}

TEST(KerasParity, EvaluationFetchesTheSameSumsAndPredictGivesTheSameOutput) {
  for (const ParityCase& one : LoadAll()) {
    SCOPED_TRACE(one.golden.at("name").get<std::string>());
    const std::map<std::string, Tensor> values = one.Values(one.golden.at("weights"));
    const auto evaluated = RunProgram(one.programs.eval_step, one.batch, values);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    ASSERT_EQ(evaluated->size(), 3u);
    const double loss_sum = one.golden.at("loss_sum");
    EXPECT_NEAR(*(*evaluated)[0].data<float>(), loss_sum, 1e-5 * loss_sum);
    EXPECT_EQ(*(*evaluated)[1].data<float>(), one.golden.at("batch").get<float>());
    EXPECT_NEAR((*evaluated)[2].data<double>()[0], one.golden.at("metric_sum").get<double>(), 1e-5);
    const auto predicted = RunProgram(one.programs.predict, one.batch, values);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    const Tensor expected = FloatTensor(
        one.golden.at("predictions"),
        {one.golden.at("batch").get<int64_t>(), one.golden.at("classes").get<int64_t>()});
    EXPECT_LT(LargestError(predicted->at(0), expected), kTolerance);
  }
}

TEST(KerasParity, WeightsAfterEachOfThreeOptimizerSteps) {
  for (const ParityCase& one : LoadAll()) {
    SCOPED_TRACE(one.golden.at("name").get<std::string>());
    const ModelPrograms& programs = one.programs;
    const auto rule = DescribeUpdateRule(programs.update_rule);
    const auto kernel = MakeUpdateKernel(programs.update_rule);
    ASSERT_TRUE(rule.ok() && kernel.ok()) << rule.status() << kernel.status();
    std::map<std::string, TrainedVariable> trained;
    for (const auto& [name, value] : one.Values(one.golden.at("weights"))) {
      trained[name] = TrainedVariable::Begin(value, *rule);
    }
    const json& steps = one.golden.at("after_step");
    for (size_t t = 0; t < steps.size(); ++t) {
      std::map<std::string, Tensor> values;
      for (const auto& [name, variable] : trained) values[name] = variable.value;
      const auto outputs = RunProgram(programs.train_step, one.batch, values);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (size_t i = 0; i < programs.variables.size(); ++i) {
        TrainedVariable& variable = trained[programs.variables[i].name];
        const double rate = LearningRateAt(one.optimizer, static_cast<int64_t>(t));
        variable.Apply(**kernel, (*outputs)[3 + i], rate, t + 1);
        const Tensor expected = FloatTensor(steps[t].at(i), programs.variables[i].shape);
        EXPECT_LT(LargestError(variable.value, expected), 1e-5)
            << programs.variables[i].name << " after step " << t + 1;
      }
    }
  }
}

// TensorFlow's safe_embedding_lookup_sparse on ragged ids, and its gradient, by a program that has
// the output's gradient as a column.
TEST(KerasParity, BagsOfRaggedIdsAndTheirGradients) {
  const json bags = ReadGolden("keras/functional.json").value("bags", json::array());
  ASSERT_EQ(bags.size(), 3u);
  for (const json& bag : bags) {
    SCOPED_TRACE(bag.at("combiner").get<std::string>());
    const int64_t rows = bag.at("rows");
    const int64_t dim = bag.at("dim");
    const Shape ids_shape(bag.at("dims").get<std::vector<int64_t>>());
    const int64_t n = ids_shape.dim(0);
    GraphBuilder builder("bag");
    builder.Input("ids", DType::kInt64, {-1, ids_shape.dim(1)});
    builder.Input("weights", DType::kFloat32, {-1, dim});
    builder.Input("bag/embeddings", DType::kFloat32, {rows, dim});
    const json layer = {{"class_name", "EmbeddingBag"},
                        {"config",
                         {{"name", "bag"},
                          {"input_dim", rows},
                          {"output_dim", dim},
                          {"combiner", bag.at("combiner")}}}};
    const TensorType ids = {DType::kInt64, Shape({ids_shape.dim(1)}), /*column=*/0};
    StateValues state;
    const auto built = BuildLayer(layer, {{.value = "ids", .type = ids}}, builder, state);
    ASSERT_TRUE(built.ok()) << built.status();
    const std::string output = built->value;
    const std::string total = builder.Op("ReduceSum", {builder.Op("Mul", {output, "weights"})},
                                         {IntAttribute("keepdims", 0)});
    builder.Output(output);
    builder.Output(total);
    const auto model = builder.Finish();
    ASSERT_TRUE(model.ok()) << model.status();
    const auto gradients = AddGradients(*model, total, {"bag/embeddings"});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const auto outputs = RunGraph(gradients->model, {Int64Tensor(bag.at("ids"), ids_shape),
                                                     FloatTensor(bag.at("weights"), {n, dim}),
                                                     FloatTensor(bag.at("table"), {rows, dim})});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_LT(LargestError(outputs->at(0), FloatTensor(bag.at("output"), {n, dim})), kTolerance);
    EXPECT_LT(LargestError(outputs->at(2), FloatTensor(bag.at("gradient"), {rows, dim})),
              kTolerance);
  }
}

}  // namespace
}  // namespace cohort
