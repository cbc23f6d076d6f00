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

// Returns the schema of the gradient of a normalization with a scale and a bias.
OpSchema NormalizationGradSchema(const char* name) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Input(2, "scale", "", "T");
  schema.Output(0, "dx", "", "T");
  schema.Output(1, "dscale", "", "T", OpSchema::Optional);
  schema.Output(2, "dbias", "", "T", OpSchema::Optional);
  schema.Attr("epsilon", "as in ONNX", AttributeProto::FLOAT, 1e-5f);
  schema.TypeAndShapeInferenceFunction(LikeXAndScale);
  return schema;
}

OpSchema LayerNormalizationGradSchema() {
  OpSchema schema = NormalizationGradSchema("LayerNormalizationGrad");
  schema.Input(3, "mean", "", "S", OpSchema::Optional);
  schema.Input(4, "inv_std_dev", "", "S", OpSchema::Optional);
  schema.TypeConstraint("S", {"tensor(float)"}, "statistics");
  schema.Attr("axis", "as in ONNX", AttributeProto::INT, int64_t{-1});
  return schema;
}

void AddGroups(OpSchema& schema) {
  schema.Attr("groups", "the number of groups of channels; 0: one for each channel",
              AttributeProto::INT, int64_t{0});
}

OpSchema GroupNormalizationSchema() {
  OpSchema schema = NewCohortSchema("GroupNormalization");
  schema.Input(0, "x", "", "T").Input(1, "scale", "", "T").Input(2, "bias", "", "T");
  schema.Output(0, "y", "", "T");
  schema.Attr("epsilon", "as in ONNX", AttributeProto::FLOAT, 1e-5f);
  AddGroups(schema);
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema GroupNormalizationGradSchema() {
  OpSchema schema = NormalizationGradSchema("GroupNormalizationGrad");
  AddGroups(schema);
  return schema;
}

}  // namespace

void AddNormalizationSchemas(OperatorSchemas& schemas) {
  schemas.push_back(BatchNormalizationGradSchema());
  schemas.push_back(LayerNormalizationGradSchema());
  schemas.push_back(GroupNormalizationSchema());
  schemas.push_back(GroupNormalizationGradSchema());
}

}  // namespace cohort
