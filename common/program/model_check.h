#pragma once

#include <string>
#include <vector>
// Checking a model: first our own walk, because libonnx accepts unknown operators in foreign
// domains, stops at the first error and swallows some; then strict shape inference; then libonnx's
// checker.

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/program/value_types.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Why a node cannot run in this process, one sentence each: its operator has no kernel, or none for
// the types of its values. Values of unknown type are no reason.
using KernelProblems = absl::FunctionRef<std::vector<std::string>(const onnx::NodeProto& node,
                                                                  const ValueTypes& types)>;

// Gives a name to every node that has none, "MatMul_3", not used by another node.
void NameNodes(onnx::GraphProto& graph);

// Checks nodes, names, order and weights of a model of any opset. Errors: INVALID_ARGUMENT listing
// every offending node as "node NAME (DOMAIN.OP): reason", and beside them the nodes that no kernel
// fits, by operator and by type as far as types can be inferred past the offending nodes.
absl::Status CheckNodes(const onnx::ModelProto& model, KernelProblems kernel_problems);

// Runs CheckNodes, infers types and shapes of every value (replacing what value_info said), then
// runs libonnx's checker. The model is of opset kOnnxOpset. Errors: INVALID_ARGUMENT listing every
// offending node, and beside them the nodes that no kernel fits.
absl::Status CheckAndInfer(onnx::ModelProto& model, KernelProblems kernel_problems);
// Checks a model for a caller that runs nothing.
absl::Status CheckAndInfer(onnx::ModelProto& model);

}  // namespace cohort
