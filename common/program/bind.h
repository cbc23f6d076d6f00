#pragma once

// Functions that make a Program from a model and the bindings of the model's inputs and outputs.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// The sources of a graph's inputs and the sinks of its outputs, by name. BindProgram fills in the
// names inside the bindings.
struct Bindings {
  std::map<std::string, proto::InputBinding> inputs;
  std::map<std::string, proto::OutputBinding> outputs;
};

proto::InputBinding FromBatch(uint32_t component);
proto::InputBinding FromVariable(const std::string& variable);
proto::InputBinding FromArgument(uint32_t position);
// Returns a binding to the replica's own row of an argument that has one row for each replica.
proto::InputBinding FromArgumentOfReplica(uint32_t position);
proto::InputBinding FromContext(proto::ContextValue value);
proto::OutputBinding ToFetch();
proto::OutputBinding ToPush(const std::string& variable);
proto::OutputBinding ToAssign(const std::string& variable);

// Makes a program from a model and its bindings. The result is a program that LoadProgram accepts.
// Errors: INVALID_ARGUMENT that names every graph input or output without a binding and every
// binding without an input or output; the errors of LoadProgram.
absl::StatusOr<proto::Program> BindProgram(const std::string& name, const onnx::ModelProto& model,
                                           const Bindings& bindings);

}  // namespace cohort
