#pragma once

// What the schemas of the families of operators share. A schema names an operator's inputs,
// outputs, attributes and type parameters, and has a function that infers the types and shapes of
// outputs. An inference function calls fail_shape_inference (an exception that libonnx catches) for
// a graph that is wrong; it leaves a shape unknown if the shapes of its inputs are unknown.

#include <cstdint>
#include <string>
#include <vector>

#include "onnx/defs/schema.h"

namespace cohort {

// Returns a schema of the name `name` in which the type parameter T stands for float32 and float64.
// RegisterCohortSchemas gives it its domain and its version.
onnx::OpSchema NewCohortSchema(const char* name);

// Adds the type parameter `name`, which stands for every tensor type.
onnx::OpSchema& AnyType(onnx::OpSchema& schema, const char* name);
// Adds the type parameter `name`, which stands for int32 and int64.
onnx::OpSchema& IndexType(onnx::OpSchema& schema, const char* name);

// Gives output `output` the type and the shape of input `input`; does nothing if the node does not
// have the output.
void LikeInputAt(onnx::InferenceContext& ctx, size_t input, size_t output);
// Gives each output i of the node the type and the shape of input i.
void LikeEachInput(onnx::InferenceContext& ctx);
// Gives each output i of the node the type of input 0 and the shape of input i + 1.
void LikeEachLaterInput(onnx::InferenceContext& ctx);
// Gives output 0 the element type of input `type` and the shape of input `shape`.
void SetOutput(onnx::InferenceContext& ctx, size_t type, size_t shape);

template <size_t kType, size_t kShape>
void LikeInput(onnx::InferenceContext& ctx) {
  SetOutput(ctx, kType, kShape);
}

// Returns the schema of a gradient with the inputs dy and y, which must have the same shape, and
// the output dx. Different shapes of dy and y are an error of the graph.
onnx::OpSchema ElementwiseGradSchema(const char* name);

}  // namespace cohort
