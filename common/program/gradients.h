#pragma once

// Reverse-mode differentiation of a graph, as a transformation from graph to graph with one rule
// for each operator (operator_gradients.cc).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"

namespace cohort {

struct GradientGraph {
  // The forward graph with the backward nodes added. The gradients are outputs of the graph.
  onnx::ModelProto model;
  // The names of the gradients of the inputs `wrt`, in the order of `wrt`.
  std::vector<std::string> gradients;
};

// Adds the gradients of the scalar output `loss` with respect to the graph inputs `wrt`. If the
// loss does not depend on an input, the input's gradient is zeros. Errors: INVALID_ARGUMENT that
// names each node on the path from an input to the loss whose operator has no gradient.
absl::StatusOr<GradientGraph> AddGradients(const onnx::ModelProto& model, const std::string& loss,
                                           absl::Span<const std::string> wrt);

}  // namespace cohort
