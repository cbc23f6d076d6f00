#include <string>

#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Infers the shape of a crossentropy loss, which is the shape of y_pred (input 1) without the axis
// of the classes.
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

// Infers the shape of a categorical crossentropy loss, and checks that y_true and y_pred have the
// same shape.
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

// Infers the shape of the loss of sequences: one number for each row of the logits [N,T,C].
void CtcInference(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 1, 0);
  if (!onnx::hasNInputShapes(ctx, 2)) return;
  const auto& labels = onnx::getInputShape(ctx, 0);
  const auto& logits = onnx::getInputShape(ctx, 1);
  if (labels.dim_size() != 2 || logits.dim_size() != 3) {
    fail_shape_inference("labels have rank ", labels.dim_size(), " and logits rank ",
                         logits.dim_size(), ": they are [N,L] and [N,T,C]");
  }
  auto* shape = ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  *shape->add_dim() = logits.dim(0);
}

OpSchema CtcSchema(bool grad) {
  OpSchema schema = NewCohortSchema(grad ? "CtcLossGrad" : "CtcLoss");
  const int first = grad ? 1 : 0;
  if (grad) schema.Input(0, "dloss", "", "T");
  schema.Input(first, "labels", "", "I").Input(first + 1, "logits", "", "T");
  schema.Output(0, grad ? "dlogits" : "loss", "", "T");
  schema.TypeConstraint("I", {"tensor(int32)", "tensor(int64)"}, "class numbers");
  if (grad) {
    schema.TypeAndShapeInferenceFunction(LikeInput<2, 2>);
  } else {
    schema.TypeAndShapeInferenceFunction(CtcInference);
  }
  return schema;
}

// Returns the schema of a crossentropy operator, or of the operator's gradient if `grad` is true.
// The crossentropy is categorical if `labels` is "T", and sparse if `labels` is "L".
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

void AddLossSchemas(OperatorSchemas& schemas) {
  schemas.push_back(DropoutGradSchema());
  schemas.push_back(SoftmaxCrossEntropyGradSchema());
  schemas.push_back(CtcSchema(false));
  schemas.push_back(CtcSchema(true));
  schemas.push_back(CrossentropySchema("CategoricalCrossentropy", "T", false));
  schemas.push_back(CrossentropySchema("CategoricalCrossentropyGrad", "T", true));
  schemas.push_back(CrossentropySchema("SparseCategoricalCrossentropy", "L", false));
  schemas.push_back(CrossentropySchema("SparseCategoricalCrossentropyGrad", "L", true));
}

}  // namespace cohort
