#include "common/program/ops/schema_support.h"

namespace cohort {

using onnx::InferenceContext;
using onnx::OpSchema;

OpSchema NewCohortSchema(const char* name) {
  OpSchema schema;
  schema.SetName(name).SetLocation(__FILE__, __LINE__);
  schema.TypeConstraint("T", {"tensor(float)", "tensor(double)"}, "real numbers");
  return schema;
}

OpSchema& AnyType(OpSchema& schema, const char* name) {
  return schema.TypeConstraint(name, OpSchema::all_tensor_types_with_bfloat(), "any");
}

OpSchema& IndexType(OpSchema& schema, const char* name) {
  return schema.TypeConstraint(name, {"tensor(int32)", "tensor(int64)"}, "positions");
}

void SetOutput(InferenceContext& ctx, size_t type, size_t shape) {
  onnx::propagateElemTypeFromInputToOutput(ctx, type, 0);
  // If the shape of the input is unknown, the shape of the output stays unknown, too. This is not
  // an error of the graph.
  if (onnx::hasInputShape(ctx, shape)) onnx::propagateShapeFromInputToOutput(ctx, shape, 0);
}

void LikeInputAt(InferenceContext& ctx, size_t input, size_t output) {
  if (output >= ctx.getNumOutputs()) return;
  onnx::propagateElemTypeFromInputToOutput(ctx, input, output);
  if (onnx::hasInputShape(ctx, input)) {
    onnx::propagateShapeFromInputToOutput(ctx, input, output);
  }
}

void LikeEachInput(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i < ctx.getNumInputs(); ++i) {
    LikeInputAt(ctx, i, i);
  }
}

void LikeEachLaterInput(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs() && i + 1 < ctx.getNumInputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, i);
    if (onnx::hasInputShape(ctx, i + 1)) onnx::propagateShapeFromInputToOutput(ctx, i + 1, i);
  }
}

namespace {

// Infers the output of an operator whose inputs dy and y must have the same shape. Different shapes
// of dy and y are an error of the graph.
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

}  // namespace

OpSchema ElementwiseGradSchema(const char* name) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "y", "", "T").Output(0, "dx", "", "T");
  schema.TypeAndShapeInferenceFunction(ElementwiseGrad);
  return schema;
}

}  // namespace cohort
