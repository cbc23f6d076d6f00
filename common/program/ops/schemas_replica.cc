#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

OpSchema AllReduceSchema() {
  OpSchema schema = NewCohortSchema("AllReduce");
  schema.Input(0, "x", "", "T").Output(0, "reduced", "", "T");
  schema.Attr("reduction", "sum or mean", AttributeProto::STRING);
  schema.Attr("of_mean_losses", "x is a gradient", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
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
  // The size of the output along the gathered axis is the sum over the replicas, which is unknown
  // because replicas may have different sizes.
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
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

}  // namespace

void AddReplicaSchemas(OperatorSchemas& schemas) {
  schemas.push_back(AllReduceSchema());
  schemas.push_back(AllGatherSchema());
  schemas.push_back(AllGatherGradSchema());
}

}  // namespace cohort
