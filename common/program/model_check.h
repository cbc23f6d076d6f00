#pragma once

// Checks of an ONNX model in three steps. The first step checks each node with Cohort's own code,
// because libonnx accepts unknown operators in foreign domains, stops at the first error and hides
// some errors. The second step is strict shape inference, and the third step is libonnx's checker.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/program/value_types.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// A function that returns the reasons why a node cannot run in this process, one sentence for each:
// the node's operator has no kernel, or no kernel for the types of the node's values. Values of
// unknown type are not a reason.
using KernelProblems = absl::FunctionRef<std::vector<std::string>(const onnx::NodeProto& node,
                                                                  const ValueTypes& types)>;

// Gives a name such as "MatMul_3", which no other node has, to every node without a name.
void NameNodes(onnx::GraphProto& graph);

// Checks the nodes, names, node order and weights of a model of any opset. Errors: INVALID_ARGUMENT
// that lists every wrong node as "node NAME (DOMAIN.OP): reason". The error also lists the nodes
// for which no kernel exists, as far as types can be inferred in spite of the wrong nodes.
absl::Status CheckNodes(const onnx::ModelProto& model, KernelProblems kernel_problems);

// Runs CheckNodes, then infers the types and shapes of all values (which replace value_info), then
// runs libonnx's checker. The model must be of opset kOnnxOpset. Errors: INVALID_ARGUMENT that
// lists every wrong node, and also the nodes for which no kernel exists.
absl::Status CheckAndInfer(onnx::ModelProto& model, KernelProblems kernel_problems);
// Checks a model and infers its types, for a caller that does not run the model. Missing kernels
// are not reported.
absl::Status CheckAndInfer(onnx::ModelProto& model);

}  // namespace cohort
