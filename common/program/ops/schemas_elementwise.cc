#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

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

}  // namespace

void AddElementwiseSchemas(OperatorSchemas& schemas) {
  schemas.push_back(ElementwiseGradSchema("ReluGrad"));
  schemas.push_back(ElementwiseGradSchema("SigmoidGrad"));
  schemas.push_back(ElementwiseGradSchema("TanhGrad"));
  schemas.push_back(ClipByNormSchema());
  schemas.push_back(ClipByValueSchema());
}

}  // namespace cohort
