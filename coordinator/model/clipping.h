#pragma once

// Gradient clipping as Keras does it, in the workers' program: there a gradient is whole, however
// its variable is cut into slices, and only what is left of it travels.

#include "absl/status/statusor.h"
#include "common/program/gradients.h"
#include "coordinator/job/compile_spec.h"

namespace cohort {

// The graph with clipped gradients as its outputs instead. Errors: INVALID_ARGUMENT from the graph.
absl::StatusOr<GradientGraph> ClipGradients(GradientGraph graph, const ClippingSpec& clipping);

}  // namespace cohort
