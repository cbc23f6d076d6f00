#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

OpSchema SoftmaxGradSchema(const char* name) {
  OpSchema schema = ElementwiseGradSchema(name);
  schema.Attr("axis", "the axis of the sum", AttributeProto::INT, int64_t{-1});
  return schema;
}

OpSchema ReduceToShapeOfSchema() {
  OpSchema schema = NewCohortSchema("ReduceToShapeOf");
  schema.Input(0, "grad", "", "T").Input(1, "like", "", "A").Output(0, "reduced", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return AnyType(schema, "A");
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

// Returns the schema of the gradient of a reduction, with the inputs dy and x. If `needs_y` is
// true, the reduction's result y is a third input.
OpSchema ReductionGradSchema(const char* name, bool needs_y) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T");
  if (needs_y) schema.Input(2, "y", "", "T");
  schema.Output(0, "dx", "", "T");
  schema.Attr("axes", "reduced axes", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  schema.Attr("keepdims", "dy keeps reduced axes", AttributeProto::INT, int64_t{1});
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

}  // namespace

void AddReduceSchemas(OperatorSchemas& schemas) {
  schemas.push_back(SoftmaxGradSchema("SoftmaxGrad"));
  schemas.push_back(SoftmaxGradSchema("LogSoftmaxGrad"));
  schemas.push_back(ReduceToShapeOfSchema());
  schemas.push_back(ReduceGradSchema());
  schemas.push_back(ReductionGradSchema("ReduceExtremumGrad", true));
  schemas.push_back(ReductionGradSchema("ReduceProdGrad", false));
}

}  // namespace cohort
