#include <string>

#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Gives every output the type and the shape of input 0.
void LikeFirstInput(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs(); ++i) LikeInputAt(ctx, 0, i);
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

// Returns the schema of a function of one real number.
OpSchema FunctionSchema(const char* name) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "x", "", "T").Output(0, "y", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema GeluSchema() {
  OpSchema schema = FunctionSchema("Gelu");
  schema.Attr("approximate", "none or tanh", AttributeProto::STRING, std::string("none"));
  return schema;
}

OpSchema UnaryGradSchema() {
  OpSchema schema = ElementwiseGradSchema("UnaryGrad");
  schema.Attr("function", "the operator's name", AttributeProto::STRING);
  for (const char* name : {"alpha", "beta", "gamma"}) {
    schema.Attr(name, "as the operator's", AttributeProto::FLOAT, onnx::OPTIONAL_VALUE);
  }
  return schema;
}

OpSchema MaxGradSchema() {
  OpSchema schema = NewCohortSchema("MaxGrad");
  schema.Input(0, "dy", "", "T");
  schema.Input(1, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "dx", "", "T", OpSchema::Variadic);
  schema.Attr("minimum", "the gradient of Min", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeFirstInput);
  return schema;
}

OpSchema ClipGradSchema() {
  OpSchema schema = NewCohortSchema("ClipGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T");
  schema.Input(2, "min", "", "T", OpSchema::Optional);
  schema.Input(3, "max", "", "T", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

}  // namespace

void AddElementwiseSchemas(OperatorSchemas& schemas) {
  schemas.push_back(ElementwiseGradSchema("ReluGrad"));
  schemas.push_back(ElementwiseGradSchema("SigmoidGrad"));
  schemas.push_back(ElementwiseGradSchema("TanhGrad"));
  schemas.push_back(ClipByNormSchema());
  schemas.push_back(ClipByValueSchema());
  schemas.push_back(GeluSchema());
  schemas.push_back(FunctionSchema("Log1p"));
  schemas.push_back(FunctionSchema("StopGradient"));
  schemas.push_back(UnaryGradSchema());
  schemas.push_back(MaxGradSchema());
  schemas.push_back(ClipGradSchema());
}

}  // namespace cohort
