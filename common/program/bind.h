#pragma once

// Functions that make a Program from a model and the bindings of the model's inputs and outputs.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// The bindings of a graph, by the names of its inputs and outputs. An input's binding says where
// the input's value comes from, an output's binding where the output's value goes. BindProgram
// writes the names of the inputs and outputs into the bindings.
struct Bindings {
  std::map<std::string, proto::InputBinding> inputs;
  std::map<std::string, proto::OutputBinding> outputs;
};

proto::InputBinding FromBatch(uint32_t component);
proto::InputBinding FromVariable(const std::string& variable);
proto::InputBinding FromArgument(uint32_t position);
// Returns a binding for an argument of the closure that has one row for each replica: the replica
// that runs the graph gets its own row.
proto::InputBinding FromArgumentOfReplica(uint32_t position);
proto::InputBinding FromContext(proto::ContextValue value);
proto::OutputBinding ToFetch();
proto::OutputBinding ToPush(const std::string& variable);
proto::OutputBinding ToAssign(const std::string& variable);

// Makes a program from a model and its bindings. LoadProgram accepts the result. Errors:
// INVALID_ARGUMENT that names every graph input or output without a binding, and every binding that
// belongs to no input or output; the errors of LoadProgram.
absl::StatusOr<proto::Program> BindProgram(const std::string& name, const onnx::ModelProto& model,
                                           const Bindings& bindings);

}  // namespace cohort
