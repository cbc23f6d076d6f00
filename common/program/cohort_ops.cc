#include "common/program/cohort_ops.h"

#include <string>
#include <utility>

#include "common/program/opset.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Adds a type constraint that every tensor type satisfies.
OpSchema& AnyType(OpSchema& schema, const char* name) {
  return schema.TypeConstraint(name, OpSchema::all_tensor_types_with_bfloat(), "any");
}

// Gives output 0 the element type of input `type` and the shape of input `shape`.
void SetOutput(InferenceContext& ctx, size_t type, size_t shape) {
  onnx::propagateElemTypeFromInputToOutput(ctx, type, 0);
  // An input's unknown shape stays unknown in the output and is not an error.
  if (onnx::hasInputShape(ctx, shape)) onnx::propagateShapeFromInputToOutput(ctx, shape, 0);
}

template <size_t kType, size_t kShape>
void LikeInput(InferenceContext& ctx) {
  SetOutput(ctx, kType, kShape);
}

// Infers the output of operators whose dy and y have one shape, so a contradiction between the two
// shapes is an error of the graph.
void ElementwiseGrad(InferenceContext& ctx) {
  SetOutput(ctx, 0, 1);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const auto& dy = onnx::getInputShape(ctx, 0);
  const auto& y = onnx::getInputShape(ctx, 1);
  if (dy.dim_size() != y.dim_size()) fail_shape_inference("dy and y differ in rank");
  for (int i = 0; i < dy.dim_size(); ++i) {
    if (dy.dim(i).has_dim_value() && y.dim(i).has_dim_value() &&
        dy.dim(i).dim_value() != y.dim(i).dim_value()) {
      fail_shape_inference("dy and y differ in dimension ", i);
    }
  }
}

OpSchema ElementwiseGradSchema(const char* name) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "y", "", "T").Output(0, "dx", "", "T");
  schema.TypeAndShapeInferenceFunction(ElementwiseGrad);
  return schema;
}

OpSchema SoftmaxGradSchema(const char* name) {
  OpSchema schema = ElementwiseGradSchema(name);
  schema.Attr("axis", "the axis of the sum", AttributeProto::INT, int64_t{-1});
  return schema;
}

// Gives output i the type of dy and the shape of input i + 1.
void ConcatGrad(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i + 1 < ctx.getNumInputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, i);
    if (onnx::hasInputShape(ctx, i + 1)) onnx::propagateShapeFromInputToOutput(ctx, i + 1, i);
  }
}

// Infers the loss's shape, which is the shape of y_pred (input 1) without the axis.
void CrossentropyLoss(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 1, 0);
  if (!onnx::hasInputShape(ctx, 1)) return;
  const auto& pred = onnx::getInputShape(ctx, 1);
  const int64_t rank = pred.dim_size();
  int64_t axis = onnx::getAttribute(ctx, "axis", int64_t{-1});
  if (rank == 0 || axis < -rank || axis >= rank) {
    fail_shape_inference("axis ", axis, " does not fit y_pred of rank ", rank);
  }
  if (axis < 0) axis += rank;
  auto* shape = ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  for (int i = 0; i < pred.dim_size(); ++i) {
    if (i != axis) *shape->add_dim() = pred.dim(i);
  }
}

// Infers the loss's shape and checks that the labels have that shape: [N] for scores [N,C]. A
// column of labels [N,1] is an error, because silent broadcasting would give an [N,N] loss.
void SparseCrossentropyLoss(InferenceContext& ctx) {
  CrossentropyLoss(ctx);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const int labels = onnx::getInputShape(ctx, 0).dim_size();
  const int pred = onnx::getInputShape(ctx, 1).dim_size();
  if (labels + 1 != pred) {
    fail_shape_inference("y_true has rank ", labels, " and y_pred has rank ", pred,
                         ": y_true has the shape of y_pred without its last axis");
  }
}

// Infers the loss's shape and checks that y_true and y_pred have one shape.
void CategoricalCrossentropyInference(InferenceContext& ctx) {
  CrossentropyLoss(ctx);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const auto& y_true = onnx::getInputShape(ctx, 0);
  const auto& y_pred = onnx::getInputShape(ctx, 1);
  if (y_true.dim_size() != y_pred.dim_size()) {
    fail_shape_inference("y_true has rank ", y_true.dim_size(), " and y_pred has rank ",
                         y_pred.dim_size(), ": they have one shape");
  }
  for (int i = 0; i < y_true.dim_size(); ++i) {
    if (y_true.dim(i).has_dim_value() && y_pred.dim(i).has_dim_value() &&
        y_true.dim(i).dim_value() != y_pred.dim(i).dim_value()) {
      fail_shape_inference("y_true and y_pred differ in dimension ", i);
    }
  }
}

OpSchema ReduceToShapeOfSchema() {
  OpSchema schema = NewCohortSchema("ReduceToShapeOf");
  schema.Input(0, "grad", "", "T").Input(1, "like", "", "A").Output(0, "reduced", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return AnyType(schema, "A");
}

OpSchema ReshapeLikeSchema() {
  OpSchema schema = NewCohortSchema("ReshapeLike");
  schema.Input(0, "x", "", "A").Input(1, "like", "", "B").Output(0, "reshaped", "", "A");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  AnyType(schema, "A");
  return AnyType(schema, "B");
}

OpSchema ZerosLikeSchema() {
  OpSchema schema = NewCohortSchema("ZerosLike");
  schema.Input(0, "like", "", "T").Output(0, "zeros", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema ReduceGradSchema() {
  OpSchema schema = NewCohortSchema("ReduceGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  schema.Attr("axes", "reduced axes", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  schema.Attr("keepdims", "dy keeps reduced axes", AttributeProto::INT, int64_t{1});
  schema.Attr("mean", "of a mean", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return schema;
}

OpSchema ConcatGradSchema() {
  OpSchema schema = NewCohortSchema("ConcatGrad");
  schema.Input(0, "dy", "", "T");
  schema.Input(1, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "dx", "", "T", OpSchema::Variadic);
  schema.Attr("axis", "the axis of the concatenation", AttributeProto::INT);
  schema.TypeAndShapeInferenceFunction(ConcatGrad);
  return schema;
}

// Gives output i the type and the shape of input i.
void LikeEachInput(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i < ctx.getNumInputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, i, i);
    if (onnx::hasInputShape(ctx, i)) onnx::propagateShapeFromInputToOutput(ctx, i, i);
  }
}

OpSchema ClipByNormSchema() {
  OpSchema schema = NewCohortSchema("ClipByNorm");
  schema.Input(0, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "clipped", "", "T", OpSchema::Variadic);
  schema.Attr("clip_norm", "the largest norm", AttributeProto::FLOAT);
  schema.TypeAndShapeInferenceFunction(LikeEachInput);
  return schema;
}

OpSchema ClipByValueSchema() {
  OpSchema schema = NewCohortSchema("ClipByValue");
  schema.Input(0, "x", "", "T").Output(0, "clipped", "", "T");
  schema.Attr("clip_value", "the largest size", AttributeProto::FLOAT);
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema GatherGradSchema() {
  OpSchema schema = NewCohortSchema("GatherGrad");
  schema.Input(0, "dy", "", "T").Input(1, "indices", "", "I").Input(2, "data", "", "T");
  schema.Output(0, "ddata", "", "T");
  schema.TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "indices");
  schema.Attr("axis", "the axis that was gathered", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 2>);
  return schema;
}

OpSchema DropoutGradSchema() {
  OpSchema schema = NewCohortSchema("DropoutGrad");
  schema.Input(0, "dy", "", "T").Input(1, "mask", "", "B");
  schema.Input(2, "ratio", "", "R", OpSchema::Optional);
  schema.Input(3, "training_mode", "", "B", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.TypeConstraint("B", {"tensor(bool)"}, "bool");
  schema.TypeConstraint("R", {"tensor(float)", "tensor(double)"}, "a probability");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return schema;
}

OpSchema SoftmaxCrossEntropyGradSchema() {
  OpSchema schema = NewCohortSchema("SoftmaxCrossEntropyGrad");
  schema.Input(0, "dloss", "", "T").Input(1, "log_prob", "", "T").Input(2, "labels", "", "I");
  schema.Input(3, "weights", "", "T", OpSchema::Optional);
  schema.Output(0, "dscores", "", "T");
  schema.TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "class numbers");
  schema.Attr("reduction", "none, mean or sum", AttributeProto::STRING, std::string("mean"));
  schema.Attr("ignore_index", "a label to leave out", AttributeProto::INT, onnx::OPTIONAL_VALUE);
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

// Returns the schema of a crossentropy: categorical if `labels` is "T", sparse if `labels` is "L".
// With `grad`, returns the schema of the gradient instead.
OpSchema CrossentropySchema(const char* name, const char* labels, bool grad) {
  OpSchema schema = NewCohortSchema(name);
  const bool sparse = std::string(labels) == "L";
  // A gradient operator has dloss as its first input, before the inputs of the forward operator.
  const int first = grad ? 1 : 0;
  if (grad) schema.Input(0, "dloss", "", "T");
  schema.Input(first, "y_true", "", labels).Input(first + 1, "y_pred", "", "T");
  schema.Output(0, grad ? "dy_pred" : "loss", "", "T");
  schema.Attr("from_logits", "y_pred holds logits", AttributeProto::INT, int64_t{0});
  if (sparse) {
    schema.TypeConstraint("L", {"tensor(int32)", "tensor(int64)", "tensor(uint8)"}, "classes");
  } else {
    schema.Attr("axis", "the axis of the classes", AttributeProto::INT, int64_t{-1});
  }
  if (grad) {
    schema.TypeAndShapeInferenceFunction(LikeInput<2, 2>);
  } else if (sparse) {
    schema.TypeAndShapeInferenceFunction(SparseCrossentropyLoss);
  } else {
    schema.TypeAndShapeInferenceFunction(CategoricalCrossentropyInference);
  }
  return schema;
}

}  // namespace

OpSchema NewCohortSchema(const char* name) {
  OpSchema schema;
  schema.SetName(name).SetDomain(kCohortDomain).SinceVersion(kCohortOpset);
  schema.SetLocation(__FILE__, __LINE__);
  schema.TypeConstraint("T", {"tensor(float)", "tensor(double)"}, "real numbers");
  return schema;
}

std::vector<OpSchema> CohortSchemas() {
  std::vector<OpSchema> schemas = {
      ReduceToShapeOfSchema(),
      ReshapeLikeSchema(),
      ZerosLikeSchema(),
      ElementwiseGradSchema("ReluGrad"),
      ElementwiseGradSchema("SigmoidGrad"),
      ElementwiseGradSchema("TanhGrad"),
      SoftmaxGradSchema("SoftmaxGrad"),
      SoftmaxGradSchema("LogSoftmaxGrad"),
      ReduceGradSchema(),
      ConcatGradSchema(),
      ClipByNormSchema(),
      ClipByValueSchema(),
      GatherGradSchema(),
      DropoutGradSchema(),
      SoftmaxCrossEntropyGradSchema(),
      CrossentropySchema("CategoricalCrossentropy", "T", false),
      CrossentropySchema("CategoricalCrossentropyGrad", "T", true),
      CrossentropySchema("SparseCategoricalCrossentropy", "L", false),
      CrossentropySchema("SparseCategoricalCrossentropyGrad", "L", true)};
  AddImageSchemas(schemas);
  return schemas;
}

}  // namespace cohort
