// Losses, metrics and weights of examples as a job's programs compute them.

#include <cmath>
#include <map>
#include <vector>

#include "common/base/status.h"
#include "common/program/gradients.h"
#include "coordinator/losses/read_loss.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"
#include "tests/unit/worker/run_together.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

// x [N,2] through a Dense layer of `units` units.
json DenseModel(int units, const char* activation = "linear") {
  const json layer = {{"class_name", "Dense"},
                      {"config",
                       {{"name", "out"},
                        {"units", units},
                        {"use_bias", false},
                        {"activation", activation},
                        {"input_shape", {2}}}}};
  return {{"class_name", "Sequential"}, {"config", {{"layers", {layer}}}}};
}

absl::StatusOr<JobSpec> JobOf(const json& model, const json& compile, const json& fit,
                              const json& data) {
  json job = {{"model", model}, {"compile", compile}, {"fit", fit}, {"data", data}};
  job["compile"]["optimizer"] = "sgd";
  return ParseJob(job.dump(), "job", {});
}

json IdxData(int files) {
  json paths = json::array();
  for (int i = 0; i < files; ++i) paths.push_back("file");
  return {{"train", {{"class_name", "IDX"}, {"config", {{"paths", paths}}}}}};
}

TEST(LossPrograms, WeightsOfExamplesAndClassesMultiplyTheLossInTraining) {
  json data = IdxData(3);
  data["sample_weight"] = 2;
  const auto job =
      JobOf(DenseModel(1), {{"loss", "mse"}, {"loss_weights", {3}}, {"metrics", {"mae"}}},
            {{"class_weight", {{"1", 10}}}}, data);
  ASSERT_TRUE(job.ok()) << job.status();
  proto::ElementSpec batch =
      Batch(Component(DType::kFloat32, {-1, 2}), Component(DType::kFloat32, {-1}));
  *batch.add_components() = Component(DType::kFloat32, {-1});
  const auto programs = BuildPrograms(*job, batch);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const std::vector<Tensor> inputs = {Tensor::FromVector<float>({1, 0, 2, 0, 4, 0}, {3, 2}),
                                      Tensor::FromVector<float>({0, 1, 2}, {3}),
                                      Tensor::FromVector<float>({1, 0.5, 2}, {3})};
  const std::map<std::string, Tensor> values = {
      {"out/kernel", Tensor::FromVector<float>({1, 1}, {2, 1})}};
  // Errors 1, 1 and 2; weights 1, 0.5 and 2; the class of label 1 counts tenfold in training.
  const auto trained = RunProgram(programs->train_step, inputs, values);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_FLOAT_EQ(*trained->at(0).data<float>(), 3 * (1 * 1 + 1 * 0.5f * 10 + 4 * 2));
  EXPECT_FLOAT_EQ(*trained->at(1).data<float>(), 3);
  EXPECT_THAT(trained->at(2).span<double>(), ElementsAre(4, 3)) << "metrics ignore weights";
  // The gradient of the mean: 3/3 * sum of 2 w e x.
  EXPECT_THAT(trained->at(3).span<float>(),
              ElementsAre(FloatNear(2 * (1 * 1 + 5 * 1 * 2 + 2 * 2 * 4), 1e-4), 0));
  const auto evaluated = RunProgram(programs->eval_step, inputs, values);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_FLOAT_EQ(*evaluated->at(0).data<float>(), 3 * (1 + 0.5f + 8));
}

TEST(LossPrograms, WeightedMetricsUseTheWeights) {
  json data = IdxData(3);
  data["sample_weight"] = 2;
  const auto job = JobOf(
      DenseModel(1, "sigmoid"),
      {{"loss", "bce"}, {"metrics", {"accuracy"}}, {"weighted_metrics", {"Precision", "AUC"}}},
      json::object(), data);
  ASSERT_TRUE(job.ok()) << job.status();
  proto::ElementSpec batch =
      Batch(Component(DType::kFloat32, {-1, 2}), Component(DType::kUint8, {-1}));
  *batch.add_components() = Component(DType::kInt32, {-1, 1});
  const auto programs = BuildPrograms(*job, batch);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(programs->fetch_names,
              ElementsAre("loss_sum", "count", "accuracy", "Precision", "AUC"))
      << "under the names that were given, as in Keras 3";
  EXPECT_THAT(programs->metric_sizes, ElementsAre(2, 2, 400));
  const auto outputs = RunProgram(
      programs->eval_step,
      {Tensor::FromVector<float>({1, 0, 2, 0, -4, 0}, {3, 2}),
       Tensor::FromVector<uint8_t>({0, 1, 1}, {3}), Tensor::FromVector<int32_t>({3, 2, 7}, {3, 1})},
      {{"out/kernel", Tensor::FromVector<float>({1, 1}, {2, 1})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  // Positive are the first two, of which the second is right.
  EXPECT_THAT(outputs->at(2).span<double>(), ElementsAre(1, 3));
  EXPECT_THAT(outputs->at(3).span<double>(), ElementsAre(2, 3));
  EXPECT_THAT(MetricValue(programs->metrics[1], outputs->at(3).span<double>()), ElementsAre(0.4));
  EXPECT_EQ(outputs->at(4).num_elements(), 400);
}

TEST(LossPrograms, SampleWeightsThatCannotBeAreNamed) {
  json data = IdxData(3);
  data["sample_weight"] = 0;
  const auto job = JobOf(DenseModel(1), {{"loss", "mse"}}, json::object(), data);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto programs = BuildPrograms(
      *job, Batch(Component(DType::kFloat32, {-1, 2}), Component(DType::kFloat32, {-1})));
  EXPECT_THAT(std::string(programs.status().message()),
              HasSubstr("data.sample_weight is component 0, which does not have one number"));
}

// A loss of x [N,3] times a weight w [3] beside y [N,3] and sample weights [N]: its batch loss, and
// the gradient by w.
absl::StatusOr<onnx::ModelProto> ReductionGraph(LossReduction reduction, bool masked) {
  GraphBuilder graph("loss");
  FormulaNodes nodes(graph);
  const std::string x = graph.Input("x", DType::kFloat32, {-1, 3});
  LossInputs in;
  in.y_true = {graph.Input("y", DType::kFloat32, {-1, 3}), {-1, 3}};
  ExampleWeights weights;
  weights.sample_weight = {graph.Input("weights", DType::kFloat32, {-1}), {-1}};
  const std::string w = graph.Input("w", DType::kFloat32, {3});
  in.y_pred = {nodes.Mul(x, w), {-1, 3}};
  ExampleLosses losses = AddExampleLosses(DefaultLoss("MeanSquaredError"), in, nodes);
  // An example with a large weight does not count.
  if (masked) {
    losses.mask = {
        nodes.Op("Less", {weights.sample_weight.name, nodes.Number(2)}), {-1}, DType::kBool};
  }
  const std::string examples = nodes.ToFloat(nodes.RowsOf(in.y_true.name));
  const BatchLoss loss = AddBatchLoss(reduction, losses, weights, examples, nodes);
  const std::string sum = graph.Op("Identity", {loss.sum});
  const std::string mean = graph.Op("Identity", {loss.mean});
  graph.Output(sum);
  graph.Output(mean);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  ASSIGN_OR_RETURN(GradientGraph gradients, AddGradients(model, mean, {"w"}));
  return std::move(gradients.model);
}

// Two replicas with 2 and 3 examples have the loss and the gradient of the whole batch, if each
// gradient counts by its number of examples.
TEST(LossReductions, ReplicasHaveTheLossAndGradientOfTheWholeBatch) {
  const Tensor x = FloatTensor(json::parse("[1,2,-1, 0,3,1, 2,2,2, -1,0,4, 1,1,-3]"), {5, 3});
  const Tensor y = FloatTensor(json::parse("[0,1,1, 2,0,1, 1,-1,0, 3,1,1, 0,0,2]"), {5, 3});
  const Tensor weights = FloatTensor(json::parse("[1,0.5,3,1.5,0.25]"), {5});
  const Tensor w = FloatTensor(json::parse("[0.5,-1,2]"), {3});
  for (const bool masked : {false, true}) {
    for (const LossReduction reduction :
         {LossReduction::kSumOverBatchSize, LossReduction::kSum, LossReduction::kNone,
          LossReduction::kMeanWithSampleWeight}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(reduction) << " " << masked);
      const auto graph = ReductionGraph(reduction, masked);
      ASSERT_TRUE(graph.ok()) << graph.status();
      const ReplicaOutputs whole = RunTogether(*graph, {{x, y, weights, w}}, {1});
      const ReplicaOutputs parts =
          RunTogether(*graph,
                      {{x.Rows(0, 2), y.Rows(0, 2), weights.Rows(0, 2), w},
                       {x.Rows(2, 3), y.Rows(2, 3), weights.Rows(2, 3), w}},
                      {0.8, 1.2});
      ASSERT_TRUE(whole[0].ok()) << whole[0].status();
      ASSERT_TRUE(parts[0].ok() && parts[1].ok()) << parts[0].status() << parts[1].status();
      EXPECT_THAT(*(*parts[0])[0].data<float>() + *(*parts[1])[0].data<float>(),
                  FloatNear(*(*whole[0])[0].data<float>(), 1e-4));
      for (size_t i = 0; i < 3; ++i) {
        const float joined =
            0.4f * (*parts[0])[2].data<float>()[i] + 0.6f * (*parts[1])[2].data<float>()[i];
        EXPECT_THAT(joined, FloatNear((*whole[0])[2].data<float>()[i], 1e-4)) << i;
      }
    }
  }
}

// Returns the weights that these labels have by class: 2 for class 0, and 5 for class 2.
std::vector<float> WeightsByClass(const char* loss, const Tensor& labels) {
  GraphBuilder graph("weights");
  FormulaNodes nodes(graph);
  std::vector<int64_t> dims(labels.shape().dims().begin(), labels.shape().dims().end());
  const NodeValue y = {graph.Input("y", labels.dtype(), dims), dims, labels.dtype()};
  graph.Output(AddClassWeights(DefaultLoss(loss), y, {{0, 2}, {2, 5}}, nodes).name);
  const auto model = graph.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  const auto outputs = RunGraph(*model, {labels});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return {};
  return {outputs->at(0).span<float>().begin(), outputs->at(0).span<float>().end()};
}

TEST(ClassWeights, AreThoseOfTheLabelAndOneElsewhere) {
  EXPECT_THAT(WeightsByClass("CategoricalCrossentropy",
                             FloatTensor(json::parse("[1,0,0, 0,1,0, 0.2,0.3,0.5]"), {3, 3})),
              ElementsAre(2, 1, 5));
  EXPECT_THAT(WeightsByClass("SparseCategoricalCrossentropy",
                             Int64Tensor(json::parse("[2,1,0,7,-1]"), {5})),
              ElementsAre(5, 1, 2, 1, 1));
  EXPECT_THAT(WeightsByClass("MeanSquaredError", FloatTensor(json::parse("[2,0.9,0.1]"), {3, 1})),
              ElementsAre(5, 1, 2));
}

}  // namespace
}  // namespace cohort
