#pragma once

// Makes a Program out of a model and what its inputs and outputs are bound to, by name.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// Sources of inputs and sinks of outputs; BindProgram fills in the names.
struct Bindings {
  std::map<std::string, proto::InputBinding> inputs;
  std::map<std::string, proto::OutputBinding> outputs;
};

proto::InputBinding FromBatch(uint32_t component);
proto::InputBinding FromVariable(const std::string& variable);
proto::InputBinding FromArgument(uint32_t position);
// Binds the replica's own row of an argument that has a row for each replica.
proto::InputBinding FromArgumentOfReplica(uint32_t position);
proto::InputBinding FromContext(proto::ContextValue value);
proto::OutputBinding ToFetch();
proto::OutputBinding ToPush(const std::string& variable);
proto::OutputBinding ToAssign(const std::string& variable);

// Makes a program that passes LoadProgram. Errors: INVALID_ARGUMENT naming every graph input or
// output without a binding and every binding without an input or output, or those of LoadProgram.
absl::StatusOr<proto::Program> BindProgram(const std::string& name, const onnx::ModelProto& model,
                                           const Bindings& bindings);

}  // namespace cohort
