#include "common/program/bind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// A train graph: scores, loss and the gradient of w.
struct TrainGraph {
  GradientGraph graph;
  std::string scores;
  std::string loss;
};

TrainGraph MakeTrainGraph() {
  GraphBuilder builder("train");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 4});
  const auto labels = builder.Input("labels", DType::kInt64, {-1});
  const auto w = builder.Input("w", DType::kFloat32, {4, 3});
  const auto b = builder.Constant("b", Tensor::FromVector<float>({1, 2, 3}, {3}));
  TrainGraph train;
  train.scores = builder.Op("Gemm", {x, w, b});
  train.loss = builder.Op("SoftmaxCrossEntropyLoss", {train.scores, labels});
  builder.Output(train.loss);
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  const auto graph = AddGradients(*model, train.loss, {"w"});
  EXPECT_TRUE(graph.ok()) << graph.status();
  train.graph = *graph;
  return train;
}

TEST(BindProgram, BindsByName) {
  const TrainGraph train = MakeTrainGraph();
  Bindings bindings;
  bindings.inputs = {{"x", FromBatch(0)}, {"labels", FromBatch(1)}, {"w", FromVariable("w")}};
  bindings.outputs = {{train.loss, ToFetch()}, {train.graph.gradients[0], ToPush("w")}};
  const auto program = BindProgram("train_step", train.graph.model, bindings);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->inputs(1).batch_component(), 1u);
  EXPECT_EQ(program->inputs(2).variable(), "w");
  EXPECT_EQ(program->outputs(1).push(), "w");
  EXPECT_TRUE(LoadProgram(*program).ok());
}

TEST(BindProgram, NamesWhatIsNotBoundAndWhatIsNotThere) {
  const TrainGraph train = MakeTrainGraph();
  Bindings bindings;
  bindings.inputs = {{"x", FromBatch(0)}, {"labels", FromBatch(1)}, {"v", FromVariable("w")}};
  bindings.outputs = {{train.loss, ToFetch()}};
  const auto program = BindProgram("train_step", train.graph.model, bindings);
  const std::string text(program.status().message());
  EXPECT_THAT(text, HasSubstr("input \"w\" has no binding"));
  EXPECT_THAT(text, HasSubstr("the graph has no input \"v\""));
  EXPECT_THAT(text, HasSubstr("output \"" + train.graph.gradients[0] + "\" has no binding"));
}

TEST(BindProgram, RefusesAContextOfAnotherType) {
  const TrainGraph train = MakeTrainGraph();
  Bindings bindings;
  bindings.inputs = {
      {"x", FromContext(proto::STEP)}, {"labels", FromBatch(1)}, {"w", FromVariable("w")}};
  bindings.outputs = {{train.loss, ToFetch()}, {train.graph.gradients[0], ToPush("w")}};
  const auto program = BindProgram("train_step", train.graph.model, bindings);
  EXPECT_THAT(program.status().message(), HasSubstr("context value STEP"));
}

}  // namespace
}  // namespace cohort
