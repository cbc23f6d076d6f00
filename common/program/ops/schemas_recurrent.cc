#include <string>

#include "common/program/ops/schema_support.h"
#include "common/program/ops/schemas.h"

namespace cohort {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::TensorShapeProto;

// The sizes of a layer that its inputs give. A size that is unknown has no value.
struct LayerDims {
  bool batch_first = false;
  TensorShapeProto::Dimension steps;
  TensorShapeProto::Dimension batch;
  TensorShapeProto::Dimension directions;
  TensorShapeProto::Dimension hidden;
};

// Returns the sizes of a layer. The inputs x and r must have known ranks.
LayerDims DimsOf(InferenceContext& ctx) {
  const TensorShapeProto& x = onnx::getInputShape(ctx, 0);
  const TensorShapeProto& r = onnx::getInputShape(ctx, 2);
  if (x.dim_size() != 3 || r.dim_size() != 3) fail_shape_inference("x and r need rank 3");
  LayerDims dims;
  dims.batch_first = onnx::getAttribute(ctx, "layout", 0) != 0;
  dims.steps = x.dim(dims.batch_first ? 1 : 0);
  dims.batch = x.dim(dims.batch_first ? 0 : 1);
  const std::string direction = onnx::getAttribute(ctx, "direction", "forward");
  dims.directions.set_dim_value(direction == "bidirectional" ? 2 : 1);
  dims.hidden = r.dim(2);
  return dims;
}

// Gives an output a shape, if the node has that output.
void SetDims(InferenceContext& ctx, size_t output,
             std::initializer_list<TensorShapeProto::Dimension> dims) {
  if (output >= ctx.getNumOutputs()) return;
  onnx::propagateElemTypeFromInputToOutput(ctx, 0, output);
  TensorShapeProto shape;
  for (const auto& dim : dims) *shape.add_dim() = dim;
  onnx::updateOutputShape(ctx, output, shape);
}

// Infers the outputs of Recurrent: y, the last states and the saved rows, whose length depends on
// the cell.
void InferRecurrent(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.getNumOutputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, i);
  }
  if (!onnx::hasInputShape(ctx, 0) || !onnx::hasInputShape(ctx, 2)) return;
  const LayerDims dims = DimsOf(ctx);
  if (dims.batch_first) {
    SetDims(ctx, 0, {dims.batch, dims.steps, dims.directions, dims.hidden});
    for (const size_t state : {1, 2})
      SetDims(ctx, state, {dims.batch, dims.directions, dims.hidden});
  } else {
    SetDims(ctx, 0, {dims.steps, dims.directions, dims.batch, dims.hidden});
    for (const size_t state : {1, 2})
      SetDims(ctx, state, {dims.directions, dims.batch, dims.hidden});
  }
  SetDims(ctx, 3, {dims.directions, dims.steps, dims.batch, TensorShapeProto::Dimension()});
}

// Infers the outputs of RecurrentGrad. Each is like an input of the layer, which may be absent.
void InferRecurrentGrad(InferenceContext& ctx) {
  for (const size_t i : {0, 1, 2}) LikeInputAt(ctx, i, i);
  for (size_t output = 3; output < ctx.getNumOutputs(); ++output) {
    onnx::propagateElemTypeFromInputToOutput(ctx, 0, output);
  }
  // The input of each output from output 3 on.
  const size_t inputs[] = {3, 5, 6, 7};
  for (size_t i = 0; i < 4; ++i) {
    if (i + 3 >= ctx.getNumOutputs() || inputs[i] >= ctx.getNumInputs()) continue;
    if (onnx::hasInputShape(ctx, inputs[i])) {
      onnx::propagateShapeFromInputToOutput(ctx, inputs[i], i + 3);
    }
  }
}

// Adds the inputs of a layer and the attributes that ONNX's LSTM, GRU and RNN share, and two of
// Keras.
void AddLayer(OpSchema& schema) {
  schema.Input(0, "x", "", "T").Input(1, "w", "", "T").Input(2, "r", "", "T");
  schema.Input(3, "b", "", "T", OpSchema::Optional);
  schema.Input(4, "mask", "", "B", OpSchema::Optional);
  int input = 5;
  for (const char* name : {"initial_h", "initial_c", "peepholes"}) {
    schema.Input(input++, name, "", "T", OpSchema::Optional);
  }
  schema.TypeConstraint("B", {"tensor(bool)"}, "masks");
  schema.Attr("cell", "LSTM, GRU or RNN", AttributeProto::STRING);
  schema.Attr("activations", "as in ONNX", AttributeProto::STRINGS, onnx::OPTIONAL_VALUE);
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::FLOATS, onnx::OPTIONAL_VALUE);
  }
  schema.Attr("direction", "as in ONNX", AttributeProto::STRING, std::string("forward"));
  for (const char* name : {"hidden_size", "layout", "linear_before_reset"}) {
    schema.Attr(name, "as in ONNX", AttributeProto::INT, int64_t{0});
  }
  for (const char* name : {"zero_output_for_mask", "go_backwards"}) {
    schema.Attr(name, "as in Keras", AttributeProto::INT, int64_t{0});
  }
}

OpSchema RecurrentSchema() {
  OpSchema schema = NewCohortSchema("Recurrent");
  AddLayer(schema);
  int output = 0;
  for (const char* name : {"y", "y_h", "y_c", "saved"}) {
    schema.Output(output++, name, "", "T", OpSchema::Optional);
  }
  schema.TypeAndShapeInferenceFunction(InferRecurrent);
  return schema;
}

OpSchema RecurrentGradSchema() {
  OpSchema schema = NewCohortSchema("RecurrentGrad");
  AddLayer(schema);
  int input = 8;
  for (const char* name : {"dy", "dy_h", "dy_c", "saved"}) {
    schema.Input(input++, name, "", "T", OpSchema::Optional);
  }
  schema.Input(input, "sequence_lens", "", "L", OpSchema::Optional);
  schema.TypeConstraint("L", {"tensor(int32)"}, "lengths");
  int output = 0;
  for (const char* name : {"dx", "dw", "dr", "db", "dinitial_h", "dinitial_c", "dpeepholes"}) {
    schema.Output(output++, name, "", "T", OpSchema::Optional);
  }
  schema.TypeAndShapeInferenceFunction(InferRecurrentGrad);
  return schema;
}

}  // namespace

void AddRecurrentSchemas(OperatorSchemas& schemas) {
  schemas.push_back(RecurrentSchema());
  schemas.push_back(RecurrentGradSchema());
}

}  // namespace cohort
