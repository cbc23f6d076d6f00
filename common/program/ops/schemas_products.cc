#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

// Gives the output of EinsumGrad the type and the shape of the operand, which dy precedes.
void LikeOperand(InferenceContext& ctx) {
  const int64_t operand = onnx::getAttribute(ctx, "operand", 0);
  const int64_t operands = static_cast<int64_t>(ctx.getNumInputs()) - 1;
  if (operand < 0 || operand >= operands) {
    fail_shape_inference("operand ", operand, " is not in [0, ", operands, ")");
  }
  LikeInputAt(ctx, static_cast<size_t>(operand) + 1, 0);
}

OpSchema EinsumGradSchema() {
  OpSchema schema = NewCohortSchema("EinsumGrad");
  schema.Input(0, "dy", "", "T");
  schema.Input(1, "x", "", "T", OpSchema::Variadic);
  schema.Output(0, "dx", "", "T");
  schema.Attr("equation", "as in ONNX", AttributeProto::STRING);
  schema.Attr("operand", "the x to which the gradient belongs", AttributeProto::INT, int64_t{0});
  schema.TypeAndShapeInferenceFunction(LikeOperand);
  return schema;
}

}  // namespace

void AddProductSchemas(OperatorSchemas& schemas) { schemas.push_back(EinsumGradSchema()); }

}  // namespace cohort
