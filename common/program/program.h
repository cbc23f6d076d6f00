#pragma once

// A Program is an ONNX graph and the bindings of its inputs and outputs (proto/program.proto). This
// header makes, checks and names programs; graph_builder.h builds graphs node by node; gradients.h
// differentiates them.

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/model_check.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// Upper bound of a serialized model; protobuf reads no more than this.
inline constexpr size_t kModelBytesMax = (size_t{1} << 31) - 1;

// Returns the content hash: 32 hexadecimal digits of the serialized program, the same in every
// process.
std::string ProgramId(const proto::Program& program);

// Parses, converts to kOnnxOpset where the model is older, checks and infers shapes. Errors:
// INVALID_ARGUMENT that lists every offending node (unknown operator, type, opset or a shape that
// contradicts itself).
absl::StatusOr<onnx::ModelProto> LoadModel(absl::string_view serialized);

// Returns the model of a program, checked, with bindings checked against its inputs and outputs.
absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program);

// Loads a program that is to run here: an error that lists offending nodes also lists those that no
// kernel fits. A program without other problems is left to the compiler, which knows which nodes
// are needed at all.
absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program,
                                             KernelProblems kernel_problems);

// Returns text for people: one line per node with domain, names and types.
std::string ProgramText(const proto::Program& program);

}  // namespace cohort
