#pragma once

// Adds a loss and metrics to a graph, with Keras's meaning. If the model ends in softmax or
// sigmoid, the loss is computed from the input of that softmax or sigmoid, as in Keras. Other
// probabilities are normalised and clipped, as in Keras.

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/layers/layer_target.h"
#include "proto/plan.pb.h"

namespace cohort {

// Checks that the metrics can read the labels of the loss. Errors: INVALID_ARGUMENT naming a metric
// that cannot.
absl::Status CheckMetrics(const CompileSpec& compile);

// Checks the labels. Errors: INVALID_ARGUMENT, with the remedy, if labels of type `y` or the
// model's output [classes] do not fit the loss or a metric.
absl::Status CheckLabels(const CompileSpec& compile, const Shape& output,
                         const proto::ComponentSpec& y);

// Returns whether the loss takes labels that are class numbers (proto::ClassLabels), not one-hot
// rows.
bool TakesClasses(const LossSpec& loss);

// Adds the per-example loss [N] and returns its name. `y` is the name of the labels in the graph,
// and `y_dtype` their type.
std::string AddLoss(const LossSpec& loss, const LayerValue& output, const std::string& y,
                    DType y_dtype, int64_t classes, GraphBuilder& graph);

// Adds float32 scalars and returns their names: the number of examples, then each metric's sum over
// the batch.
std::vector<std::string> AddCounts(const CompileSpec& compile, const LayerValue& output,
                                   const std::string& y, DType y_dtype, GraphBuilder& graph);

}  // namespace cohort
