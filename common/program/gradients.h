#pragma once

// Reverse-mode differentiation as a graph-to-graph transformation: one rule per operator
// (gradient_rules.cc).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"

namespace cohort {

struct GradientGraph {
  // The forward graph with the backward nodes added; gradients are outputs.
  onnx::ModelProto model;
  std::vector<std::string> gradients;  // one value name per requested input, in order
};

// Adds the gradients of the scalar output `loss` with respect to graph inputs `wrt`. An input that
// the loss does not depend on gets zeros. Errors: INVALID_ARGUMENT naming each node on the path
// whose operator has no gradient.
absl::StatusOr<GradientGraph> AddGradients(const onnx::ModelProto& model, const std::string& loss,
                                           absl::Span<const std::string> wrt);

}  // namespace cohort
