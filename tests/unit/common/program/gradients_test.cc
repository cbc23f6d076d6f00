#include "common/program/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/program/value_types.h"

// Structure only: names, types, shapes and refusals. Values are compared with finite differences in
// tests/device/gradient_test.cc and with Keras in tests/golden.

namespace cohort {
namespace {

using testing::HasSubstr;

onnx::ModelProto Finished(GraphBuilder& builder) {
  auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : onnx::ModelProto();
}

std::string TypeOf(const onnx::ModelProto& model, const std::string& value) {
  return TypeText(ValueTypes(model.graph()).Find(value));
}

int CountOp(const onnx::ModelProto& model, const std::string& op) {
  int count = 0;
  for (const auto& node : model.graph().node()) count += node.op_type() == op ? 1 : 0;
  return count;
}

// x [N,4] -> Dense 3 relu -> Dropout -> Dense 2 -> mean cross-entropy; the loss is named by the
// caller.
struct Mlp {
  onnx::ModelProto model;
  std::string loss;
};

Mlp MakeMlp(DType dtype) {
  GraphBuilder builder("mlp");
  const auto x = builder.Input("x", dtype, {-1, 4});
  const auto labels = builder.Input("labels", DType::kInt64, {-1});
  const auto training = builder.Input("training", DType::kBool, {});
  const auto w1 = builder.Input("w1", dtype, {4, 3});
  const auto b1 = builder.Input("b1", dtype, {3});
  const auto w2 = builder.Input("w2", dtype, {3, 2});
  const auto unused = builder.Input("unused", dtype, {5});
  const auto ratio = builder.Constant("ratio", Tensor::Scalar<float>(0.25f));
  auto h = builder.Op("Relu", {builder.Op("Add", {builder.Op("MatMul", {x, w1}), b1})});
  h = builder.Op("Dropout", {h, ratio, training});
  const auto scores = builder.Op("MatMul", {h, w2});
  const auto loss = builder.Op("SoftmaxCrossEntropyLoss", {scores, labels});
  builder.Output(loss);
  return {Finished(builder), loss};
}

TEST(AddGradients, GivesEachInputAGradientOfItsTypeAndShape) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Mlp mlp = MakeMlp(dtype);
    const std::vector<std::string> wrt = {"w1", "b1", "w2", "x", "unused"};
    const auto graph = AddGradients(mlp.model, mlp.loss, wrt);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_EQ(graph->gradients.size(), wrt.size());
    for (size_t i = 0; i < wrt.size(); ++i) {
      EXPECT_EQ(TypeOf(graph->model, graph->gradients[i]), TypeOf(graph->model, wrt[i])) << wrt[i];
    }
    EXPECT_EQ(graph->model.graph().output_size(), 6);
    EXPECT_EQ(CountOp(graph->model, "ZerosLike"), 1);
    // The bias alone is broadcast: shapes that are known to agree cost no reduction.
    EXPECT_EQ(CountOp(graph->model, "ReduceToShapeOf"), 1);
  }
}

TEST(AddGradients, KeepsTheForwardNodesAndTheirNames) {
  const Mlp mlp = MakeMlp(DType::kFloat32);
  const auto graph = AddGradients(mlp.model, mlp.loss, {"w1"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::set<std::string> names;
  for (int i = 0; i < graph->model.graph().node_size(); ++i) {
    const auto& node = graph->model.graph().node(i);
    EXPECT_TRUE(names.insert(node.name()).second) << node.name();
    if (i < mlp.model.graph().node_size()) {
      EXPECT_EQ(node.name(), mlp.model.graph().node(i).name());
    } else {
      EXPECT_THAT(node.name(), testing::StartsWith("gradient/"));
    }
  }
}

TEST(AddGradients, IsAModelThatLoads) {
  const Mlp mlp = MakeMlp(DType::kFloat32);
  const auto graph = AddGradients(mlp.model, mlp.loss, {"w1", "b1", "w2"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto loaded = LoadModel(graph->model.SerializeAsString());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->graph().node_size(), graph->model.graph().node_size());
}

TEST(AddGradients, IsTheSameEveryTime) {
  const Mlp mlp = MakeMlp(DType::kFloat32);
  const auto one = AddGradients(mlp.model, mlp.loss, {"w1", "b1", "w2"});
  const auto two = AddGradients(mlp.model, mlp.loss, {"w1", "b1", "w2"});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->model.SerializeAsString(), two->model.SerializeAsString());
}

TEST(AddGradients, ComputesNothingForInputsThatAreNotWanted) {
  const Mlp mlp = MakeMlp(DType::kFloat32);
  const auto last = AddGradients(mlp.model, mlp.loss, {"w2"});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(CountOp(last->model, "DropoutGrad"), 0);
  EXPECT_EQ(CountOp(last->model, "ReluGrad"), 0);
  EXPECT_EQ(CountOp(last->model, "Gemm"), 1);
}

TEST(AddGradients, GivesSharedGradientsOutputsOfTheirOwn) {
  GraphBuilder builder("g");
  const auto a = builder.Input("a", DType::kFloat32, {});
  const auto b = builder.Input("b", DType::kFloat32, {});
  const auto loss = builder.Op("Add", {a, b});
  builder.Output(loss);
  const auto graph = AddGradients(Finished(builder), loss, {"a", "b"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(graph->gradients[0], graph->gradients[1]);
  EXPECT_EQ(graph->model.graph().output_size(), 3);
}

TEST(AddGradients, StopsAtOperatorsThatAreNotSmooth) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 4});
  const auto y = builder.Input("y", DType::kFloat32, {-1});
  const auto best =
      builder.Op("ArgMax", {x}, {IntAttribute("axis", 1), IntAttribute("keepdims", 0)});
  const auto real = builder.Op("Cast", {best}, {IntAttribute("to", onnx::TensorProto::FLOAT)});
  const auto loss =
      builder.Op("ReduceMean", {builder.Op("Mul", {real, y})}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  const auto graph = AddGradients(Finished(builder), loss, {"x", "y"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(TypeOf(graph->model, graph->gradients[0]), "float32[N,4]");
  EXPECT_EQ(CountOp(graph->model, "ZerosLike"), 1) << "x only";
}

// The gradient of x * StopGradient(x) is StopGradient(x), so one product comes back.
TEST(AddGradients, StopsAtStopGradient) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {4});
  const auto stopped = builder.Op("StopGradient", {x}, {}, kCohortDomain);
  const auto loss =
      builder.Op("ReduceMean", {builder.Op("Mul", {x, stopped})}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  const auto graph = AddGradients(Finished(builder), loss, {"x"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(CountOp(graph->model, "Mul"), 2);
  EXPECT_EQ(CountOp(graph->model, "Add"), 0);
}

TEST(AddGradients, ListsEveryOperatorWithoutAGradient) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {4});
  const auto y = builder.Op("Atan", {builder.Op("Asin", {x})});
  builder.Output(builder.Op("Acos", {x}));  // not on the way to the loss
  const auto loss = builder.Op("ReduceMean", {y}, {IntAttribute("keepdims", 0)});
  builder.Output(loss);
  const auto graph = AddGradients(Finished(builder), loss, {"x"});
  ASSERT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text(graph.status().message());
  EXPECT_THAT(text, HasSubstr("node \"Asin\" (onnx.Asin): this operator has no gradient"));
  EXPECT_THAT(text, HasSubstr("node \"Atan\""));
  EXPECT_THAT(text, testing::Not(HasSubstr("Acos")));
}

TEST(AddGradients, RefusesWhatItCannotDifferentiate) {
  const Mlp mlp = MakeMlp(DType::kFloat32);
  const auto message = [&](const std::string& loss, const std::string& wrt) {
    return std::string(AddGradients(mlp.model, loss, {wrt}).status().message());
  };
  EXPECT_THAT(message("nothing", "w1"), HasSubstr("loss \"nothing\" is not a real value"));
  EXPECT_THAT(message("x", "w1"),
              HasSubstr("loss \"x\" is float32[N,4]: it must have one element"));
  EXPECT_THAT(message(mlp.loss, "labels"), HasSubstr("gradient of \"labels\""));
  EXPECT_THAT(message(mlp.loss, "Relu:0"), HasSubstr("gradient of \"Relu:0\""));
}

TEST(AddGradients, NamesTheReduceSumWhoseAxesAreComputed) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {4, 5});
  const auto axes = builder.Input("axes", DType::kInt64, {2});
  const auto sum = builder.Op("ReduceSum", {x, axes}, {IntAttribute("keepdims", 1)});
  const auto one = builder.Constant("one", Tensor::FromVector<int64_t>({1}, {1}));
  const auto loss = builder.Op("Reshape", {sum, one});
  builder.Output(loss);
  const auto graph = AddGradients(Finished(builder), loss, {"x"});
  EXPECT_THAT(graph.status().message(), HasSubstr("axes are not a constant"));
}

TEST(CohortOps, KerasLossesHaveOneLossPerExample) {
  GraphBuilder builder("g");
  const auto p = builder.Input("p", DType::kFloat32, {-1, 10});
  const auto t = builder.Input("t", DType::kFloat32, {-1, 10});
  const auto c = builder.Input("c", DType::kUint8, {-1});
  const auto dense = builder.Op("CategoricalCrossentropy", {t, p}, {}, kCohortDomain);
  const auto sparse = builder.Op("SparseCategoricalCrossentropy", {c, p}, {}, kCohortDomain);
  builder.Output(dense);
  builder.Output(sparse);
  const auto model = Finished(builder);
  EXPECT_EQ(TypeOf(model, dense), "float32[N]");
  EXPECT_EQ(TypeOf(model, sparse), "float32[N]");
}

TEST(CohortOps, RefuseLabelsOfAnotherShape) {
  GraphBuilder builder("g");
  const auto p = builder.Input("p", DType::kFloat32, {-1, 10});
  const auto c = builder.Input("c", DType::kInt64, {-1, 1});
  builder.Output(builder.Op("SparseCategoricalCrossentropy", {c, p}, {}, kCohortDomain));
  const auto model = builder.Finish();
  EXPECT_THAT(model.status().message(), HasSubstr("y_true has rank 2 and y_pred has rank 2"));
}

}  // namespace
}  // namespace cohort
