#include <string>

#include "common/program/cohort_ops.h"
#include "common/program/opset.h"

// Operators for the gradients of convolution, pooling and normalization, and operators that combine
// values of the replicas of a step.

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Gives output `output` the type and the shape of input `input`.
void Like(InferenceContext& ctx, size_t input, size_t output) {
  if (output >= ctx.getNumOutputs()) return;
  onnx::propagateElemTypeFromInputToOutput(ctx, input, output);
  if (onnx::hasInputShape(ctx, input)) {
    onnx::propagateShapeFromInputToOutput(ctx, input, output);
  }
}

template <size_t kInput>
void LikeInput(InferenceContext& ctx) {
  Like(ctx, kInput, 0);
}

// Gives dx the shape of x, and dscale and dbias the shape of scale.
void LikeXAndScale(InferenceContext& ctx) {
  Like(ctx, 1, 0);
  Like(ctx, 2, 1);
  Like(ctx, 2, 2);
}

// Adds the attributes that ONNX's convolutions and poolings share.
void AddWindowAttributes(OpSchema& schema) {
  schema.Attr("auto_pad", "as in ONNX", AttributeProto::STRING, std::string("NOTSET"));
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  }
}

// Returns the schema of a gradient of Conv. `operand` is the other factor of the convolution; the
// gradient, computed from dy and `operand`, has the shape of `like`.
OpSchema ConvGradSchema(const char* name, const char* operand, const char* like) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, operand, "", "T").Input(2, like, "", "T");
  schema.Output(0, "gradient", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("group", "as in ONNX", AttributeProto::INT, int64_t{1});
  schema.TypeAndShapeInferenceFunction(LikeInput<2>);
  return schema;
}

// Returns the schema of a pooling's gradient; `flag` is the attribute that only this pooling has.
OpSchema PoolGradSchema(const char* name, const char* flag) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("ceil_mode", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.Attr(flag, "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1>);
  return schema;
}

OpSchema BatchNormalizationGradSchema() {
  OpSchema schema = NewCohortSchema("BatchNormalizationGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Input(2, "scale", "", "T");
  schema.Input(3, "mean", "", "T", OpSchema::Optional);
  schema.Input(4, "variance", "", "T", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.Output(1, "dscale", "", "T", OpSchema::Optional);
  schema.Output(2, "dbias", "", "T", OpSchema::Optional);
  schema.Attr("epsilon", "as in ONNX", AttributeProto::FLOAT, 1e-5f);
  schema.Attr("training_mode", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeXAndScale);
  return schema;
}

OpSchema AllReduceSchema() {
  OpSchema schema = NewCohortSchema("AllReduce");
  schema.Input(0, "x", "", "T").Output(0, "reduced", "", "T");
  schema.Attr("reduction", "sum or mean", AttributeProto::STRING);
  schema.Attr("of_mean_losses", "x is a gradient", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0>);
  return schema;
}

// Infers the output of AllGather: the type and rank of x, and the sizes of x except along the axis.
void InferAllGather(InferenceContext& ctx) {
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  if (!onnx::hasInputShape(ctx, 0)) return;
  onnx::propagateShapeFromInputToOutput(ctx, 0, 0);
  auto* const shape = ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const int64_t axis = onnx::getAttribute(ctx, "axis", int64_t{0});
  const int64_t place = axis < 0 ? axis + shape->dim_size() : axis;
  // Replicas may have different sizes along the gathered axis, so the sum of the sizes is unknown.
  if (place >= 0 && place < shape->dim_size()) shape->mutable_dim(static_cast<int>(place))->Clear();
}

OpSchema AllGatherSchema() {
  OpSchema schema = NewCohortSchema("AllGather");
  schema.Input(0, "x", "", "A").Output(0, "gathered", "", "A");
  schema.TypeConstraint("A", OpSchema::all_tensor_types(), "any");
  schema.Attr("axis", "along which", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(InferAllGather);
  return schema;
}

OpSchema AllGatherGradSchema() {
  OpSchema schema = NewCohortSchema("AllGatherGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  schema.Attr("axis", "as AllGather's", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1>);
  return schema;
}

}  // namespace

void AddImageSchemas(std::vector<OpSchema>& schemas) {
  schemas.push_back(ConvGradSchema("ConvInputGrad", "w", "x"));
  schemas.push_back(ConvGradSchema("ConvWeightGrad", "x", "w"));
  schemas.push_back(PoolGradSchema("MaxPoolGrad", "storage_order"));
  schemas.push_back(PoolGradSchema("AveragePoolGrad", "count_include_pad"));
  schemas.push_back(BatchNormalizationGradSchema());
  schemas.push_back(AllReduceSchema());
  schemas.push_back(AllGatherSchema());
  schemas.push_back(AllGatherGradSchema());
}

}  // namespace cohort
