#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "tests/device/gradient_cases.h"

// Graphs of several nodes: values used twice, gradients that meet, Dropout, Cast, whole networks.

namespace cohort {
namespace {

using Inputs = std::vector<std::string>;

std::string Square(GraphBuilder& builder, const Inputs& x, DType) {
  return builder.Op("Mul", {x[0], x[0]});
}

std::string ProductWithItself(GraphBuilder& builder, const Inputs& x, DType) {
  return builder.Op("MatMul", {x[0], x[0]});
}

// Three paths from x to the sum.
std::string Diamond(GraphBuilder& builder, const Inputs& x, DType) {
  const auto a = builder.Op("Tanh", {x[0]});
  const auto b = builder.Op("Sigmoid", {x[0]});
  return builder.Op("Add", {builder.Op("Mul", {a, b}), builder.Op("Sub", {a, x[0]})});
}

std::string DropoutOf(GraphBuilder& builder, const Inputs& x, bool training) {
  const auto ratio = builder.Constant("ratio", Tensor::Scalar<float>(0.375f));
  const auto mode = builder.Constant("training", Tensor::Scalar<bool>(training));
  return builder.Op("Dropout", {builder.Op("Exp", {x[0]}), ratio, mode});
}

std::string DropoutTraining(GraphBuilder& builder, const Inputs& x, DType) {
  return DropoutOf(builder, x, true);
}

std::string DropoutInference(GraphBuilder& builder, const Inputs& x, DType) {
  return DropoutOf(builder, x, false);
}

std::string DropoutWithDefaults(GraphBuilder& builder, const Inputs& x, DType) {
  return builder.Op("Dropout", x);
}

// To the wider type and back, so that differences stay exact in double.
std::string CastThere(GraphBuilder& builder, const Inputs& x, DType dtype) {
  const auto wide = builder.Op("Cast", x, {IntAttribute("to", onnx::TensorProto::DOUBLE)});
  const auto y = builder.Op("Mul", {wide, wide});
  return builder.Op("Cast", {y}, {IntAttribute("to", static_cast<int64_t>(dtype))});
}

// x, w1, b1, w2, b2, labels.
std::string DigitsMlp(GraphBuilder& builder, const Inputs& x, DType) {
  const auto flat = builder.Op("Flatten", {x[0]});
  const auto h =
      builder.Op("Relu", {builder.Op("Add", {builder.Op("MatMul", {flat, x[1]}), x[2]})});
  const auto scores = builder.Op("Gemm", {h, x[3], x[4]});
  return builder.Op("SoftmaxCrossEntropyLoss", {scores, x[5]});
}

// One weight matrix for both layers, softmax probabilities and Keras's loss on them, averaged.
std::string TiedKerasModel(GraphBuilder& builder, const Inputs& x, DType) {
  const auto h = builder.Op("Tanh", {builder.Op("MatMul", {x[0], x[1]})});
  const auto p = builder.Op("Softmax", {builder.Op("MatMul", {h, x[1]})});
  const auto each = builder.Op("SparseCategoricalCrossentropy", {x[2], p}, {}, kCohortDomain);
  return builder.Op("ReduceMean", {each}, {IntAttribute("keepdims", 0)});
}

// An embedding of two columns side by side, a layer, a squared error.
std::string EmbeddingModel(GraphBuilder& builder, const Inputs& x, DType) {
  const auto rows =
      builder.Op("Concat", {builder.Op("Gather", {x[0], x[1]}), builder.Op("Gather", {x[0], x[2]})},
                 {IntAttribute("axis", 1)});
  const auto error = builder.Op("Sub", {builder.Op("MatMul", {rows, x[3]}), x[4]});
  return builder.Op("ReduceMean", {builder.Op("Mul", {error, error})});
}

}  // namespace

std::vector<GradientCase> CompositeGradientCases() {
  const auto index = [](std::vector<int64_t> dims, int64_t bound) {
    return GradientInput{std::move(dims), Fill::kIndex, bound};
  };
  const GradientInput labels = {{-1}, Fill::kLabel, 3};
  return {
      {"Square", {{{-1, 3}}}, Square},
      {"ProductWithItself", {{{3, 3}}}, ProductWithItself},
      {"Diamond", {{{-1, 3}}}, Diamond},
      {"Dropout_training", {{{-1, 6}}}, DropoutTraining},
      {"Dropout_inference", {{{-1, 6}}}, DropoutInference},
      {"Dropout_defaults", {{{-1, 6}}}, DropoutWithDefaults},
      {"Cast", {{{-1, 3}}}, CastThere},
      {"DigitsMlp", {{{-1, 2, 2}}, {{4, 5}}, {{5}}, {{5, 3}}, {{3}}, labels}, DigitsMlp},
      {"TiedKerasModel", {{{-1, 3}}, {{3, 3}}, labels}, TiedKerasModel},
      {"EmbeddingModel",
       {{{7, 2}}, index({-1}, 7), index({-1}, 7), {{4, 2}}, {{-1, 2}}},
       EmbeddingModel},
  };
}

}  // namespace cohort
