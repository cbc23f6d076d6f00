#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Infers the outputs of BatchNormalizationGrad: dx has the shape of x, and dscale and dbias have
// the shape of scale.
void LikeXAndScale(InferenceContext& ctx) {
  LikeInputAt(ctx, 1, 0);
  LikeInputAt(ctx, 2, 1);
  LikeInputAt(ctx, 2, 2);
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

}  // namespace

void AddNormalizationSchemas(OperatorSchemas& schemas) {
  schemas.push_back(BatchNormalizationGradSchema());
}

}  // namespace cohort
