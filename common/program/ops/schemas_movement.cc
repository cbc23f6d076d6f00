#include <string>
#include <vector>

#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

OpSchema ReshapeLikeSchema() {
  OpSchema schema = NewCohortSchema("ReshapeLike");
  schema.Input(0, "x", "", "A").Input(1, "like", "", "B").Output(0, "reshaped", "", "A");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  AnyType(schema, "A");
  return AnyType(schema, "B");
}

OpSchema ZerosLikeSchema() {
  OpSchema schema = NewCohortSchema("ZerosLike");
  schema.Input(0, "like", "", "T").Output(0, "zeros", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 0>);
  return schema;
}

OpSchema ConcatGradSchema() {
  OpSchema schema = NewCohortSchema("ConcatGrad");
  schema.Input(0, "dy", "", "T");
  schema.Input(1, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "dx", "", "T", OpSchema::Variadic);
  schema.Attr("axis", "the axis of the concatenation", AttributeProto::INT);
  schema.TypeAndShapeInferenceFunction(LikeEachLaterInput);
  return schema;
}

OpSchema GatherGradSchema() {
  OpSchema schema = NewCohortSchema("GatherGrad");
  schema.Input(0, "dy", "", "T").Input(1, "indices", "", "I").Input(2, "data", "", "T");
  schema.Output(0, "ddata", "", "T");
  IndexType(schema, "I");
  schema.Attr("axis", "the axis that was gathered", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 2>);
  return schema;
}

// Returns the schema of the gradient of an operator that moves elements of x. The gradient's inputs
// are dy, x and then `inputs`, the forward operator's integer inputs, such as starts and ends. The
// first `required` of `inputs` must be present; the others are optional.
OpSchema MovementGradSchema(const char* name, const std::vector<const char*>& inputs,
                            size_t required) {
  OpSchema schema = NewCohortSchema(name);
  schema.Input(0, "dy", "", "T").Input(1, "x", "", "T");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto option = i < required ? OpSchema::Single : OpSchema::Optional;
    schema.Input(static_cast<int>(i) + 2, inputs[i], "", "I", option);
  }
  schema.Output(0, "dx", "", "T");
  schema.TypeAndShapeInferenceFunction(LikeInput<0, 1>);
  return IndexType(schema, "I");
}

OpSchema PadGradSchema() {
  OpSchema schema = MovementGradSchema("PadGrad", {"pads"}, 1);
  schema.Attr("mode", "as in ONNX", AttributeProto::STRING, std::string("constant"));
  return schema;
}

OpSchema GatherNdGradSchema() {
  OpSchema schema = MovementGradSchema("GatherNDGrad", {"indices"}, 1);
  schema.Attr("batch_dims", "as in ONNX", AttributeProto::INT, int64_t{0});
  return schema;
}

}  // namespace

void AddMovementSchemas(OperatorSchemas& schemas) {
  schemas.push_back(ReshapeLikeSchema());
  schemas.push_back(ZerosLikeSchema());
  schemas.push_back(ConcatGradSchema());
  schemas.push_back(GatherGradSchema());
  schemas.push_back(MovementGradSchema("SliceGrad", {"starts", "ends", "axes", "steps"}, 2));
  schemas.push_back(PadGradSchema());
  schemas.push_back(MovementGradSchema("TileGrad", {"repeats"}, 1));
  schemas.push_back(GatherNdGradSchema());
}

}  // namespace cohort
