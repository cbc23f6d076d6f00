#pragma once

// The two passes over the calls of a model, planning and building (coordinator/layers/layer.h). The
// model may be a layer of another model.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Returns the types of the model's outputs. `outer` is the call of the model; the outermost model's
// layer is "". Errors: INVALID_ARGUMENT naming a layer and the input that it cannot take, or the
// output that it does not have; more than kCallsMax calls in all.
absl::StatusOr<std::vector<TensorType>> PlanCalls(const ModelSpec& model, const CallSettings& outer,
                                                  absl::Span<const TensorType> inputs,
                                                  LayerPlan& plan);

// Adds the nodes of calls that PlanCalls has accepted, and returns the model's outputs.
std::vector<LayerValue> BuildCalls(const ModelSpec& model, const CallSettings& outer,
                                   absl::Span<const LayerValue> inputs, LayerTarget& target);

}  // namespace cohort
