#pragma once

// Gradient clipping as Keras does it, in the workers' program: there a gradient is whole, however
// its variable is cut into slices, and only what is left of it travels. Where several replicas
// compute gradients, what is clipped is their mean.

#include <vector>

#include "absl/status/statusor.h"
#include "common/program/gradients.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/model/variable_spec.h"

namespace cohort {

// The graph with clipped gradients as its outputs instead. Errors: INVALID_ARGUMENT from the graph.
absl::StatusOr<GradientGraph> ClipGradients(GradientGraph graph, const ClippingSpec& clipping);

bool Clips(const ClippingSpec& clipping);

// A graph that takes these gradients, one of each variable, by name, and gives the clipped ones in
// the same order: Program.joined_model. Errors: as above.
absl::StatusOr<onnx::ModelProto> ClippingGraph(const std::vector<std::string>& gradients,
                                               const std::vector<VariableSpec>& variables,
                                               const ClippingSpec& clipping);

}  // namespace cohort
