#pragma once

// A Program is an ONNX graph with the bindings of its inputs and outputs (proto/program.proto).
// This header loads, checks and identifies programs; graph_builder.h builds graphs node by node;
// gradients.h differentiates graphs.

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/model_check.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// The largest size of a serialized model, because protobuf cannot parse a larger message.
inline constexpr size_t kModelBytesMax = (size_t{1} << 31) - 1;

// Returns the content hash of a program: 32 hexadecimal digits that are the same in every process.
std::string ProgramId(const proto::Program& program);

// Parses a model, converts it to kOnnxOpset if it is older, checks it and infers its shapes.
// Errors: INVALID_ARGUMENT that lists every wrong node (unknown operator, type or opset, or
// contradictory shapes).
absl::StatusOr<onnx::ModelProto> LoadModel(absl::string_view serialized);

// Returns the model of a program after checking the model, and checking that the program's bindings
// match the model's inputs and outputs.
absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program);

// Loads a program that will run in this process. If the model has wrong nodes, the error also lists
// the nodes without a kernel. If missing kernels are the only problem, the program is accepted,
// because only the compiler knows which nodes are needed.
absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program,
                                             KernelProblems kernel_problems);

}  // namespace cohort
