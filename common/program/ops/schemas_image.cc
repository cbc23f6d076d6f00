#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

// Adds the attributes that ONNX's convolutions and poolings share.
void AddWindowAttributes(OpSchema& schema) {
  schema.Attr("auto_pad", "as in ONNX", AttributeProto::STRING, std::string("NOTSET"));
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  }
}

// Returns the schema of an operator for one of Conv's gradients. The operator computes the gradient
// of the Conv input `like` from dy and from `operand`, the other factor of the convolution.
OpSchema ConvGradSchema(const char* name, const char* operand, const char* like) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, operand, "", "T").Input(2, like, "", "T");
  schema.Output(0, "gradient", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("group", "as in ONNX", AttributeProto::INT, int64_t{1});
  schema.TypeAndShapeInferenceFunction(LikeInput<2, 2>);
  return schema;
}

// Returns the schema of an operator for one of ConvTranspose's gradients, like ConvGradSchema.
OpSchema ConvTransposeGradSchema(const char* name, const char* operand, const char* like) {
  OpSchema schema = ConvGradSchema(name, operand, like);
  for (const char* list : {"output_padding", "output_shape"}) {
    schema.Attr(list, "as in ONNX", AttributeProto::INTS, onnx::OPTIONAL_VALUE);
  }
  return schema;
}

// Returns the schema of the gradient of MaxPool or AveragePool. `flag` is the attribute that only
// this pooling operator has.
OpSchema PoolGradSchema(const char* name, const char* flag) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T").Output(0, "dx", "", "T");
  AddWindowAttributes(schema);
  schema.Attr("ceil_mode", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.Attr(flag, "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

OpSchema ResizeGradSchema() {
  OpSchema schema = NewCohortSchema("ResizeGrad");
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T");
  schema.Input(2, "roi", "", "R", OpSchema::Optional);
  schema.Input(3, "scales", "", "S", OpSchema::Optional);
  schema.Input(4, "sizes", "", "I", OpSchema::Optional);
  schema.Output(0, "dx", "", "T");
  schema.TypeConstraint("R", {"tensor(float)", "tensor(double)"}, "shares of an axis");
  schema.TypeConstraint("S", {"tensor(float)"}, "scales");
  IndexType(schema, "I");
  for (const char* name : {"mode", "nearest_mode", "coordinate_transformation_mode"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::STRING, onnx::OPTIONAL_VALUE);
  }
  for (const char* name : {"cubic_coeff_a", "extrapolation_value"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::FLOAT, onnx::OPTIONAL_VALUE);
  }
  schema.Attr("exclude_outside", "as in ONNX", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<1, 1>);
  return schema;
}

}  // namespace

void AddImageSchemas(OperatorSchemas& schemas) {
  schemas.push_back(ConvGradSchema("ConvInputGrad", "w", "x"));
  schemas.push_back(ConvGradSchema("ConvWeightGrad", "x", "w"));
  schemas.push_back(ConvTransposeGradSchema("ConvTransposeInputGrad", "w", "x"));
  schemas.push_back(ConvTransposeGradSchema("ConvTransposeWeightGrad", "x", "w"));
  schemas.push_back(PoolGradSchema("MaxPoolGrad", "storage_order"));
  schemas.push_back(PoolGradSchema("AveragePoolGrad", "count_include_pad"));
  schemas.push_back(ResizeGradSchema());
}

}  // namespace cohort
