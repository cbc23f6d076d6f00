#pragma once

// Adds a loss and metrics to a graph, with Keras's meaning. Where the model ends in softmax or
// sigmoid the loss is computed from the values before it, as Keras does; probabilities from
// elsewhere are normalised and clipped as Keras does.

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/model/layer_nodes.h"
#include "proto/plan.pb.h"

namespace cohort {

// Errors: INVALID_ARGUMENT naming a metric that cannot read the labels of the loss.
absl::Status CheckMetrics(const CompileSpec& compile);

// Errors: INVALID_ARGUMENT where labels of type `y` or the model's output [classes] do not fit the
// loss or a metric, with the remedy.
absl::Status CheckLabels(const CompileSpec& compile, const Shape& output,
                         const proto::ComponentSpec& y);

// Returns whether labels are class numbers (proto::ClassLabels), not one-hot rows.
bool TakesClasses(const LossSpec& loss);

// Adds the per-example loss [N]. `y` is the graph's name of the labels, whose type is `y_dtype`.
std::string AddLoss(const LossSpec& loss, const ModelOutput& output, const std::string& y,
                    DType y_dtype, int64_t classes, GraphBuilder& graph);

// Adds float32 scalars: the number of examples, then each metric's sum over the batch.
std::vector<std::string> AddCounts(const CompileSpec& compile, const ModelOutput& output,
                                   const std::string& y, DType y_dtype, GraphBuilder& graph);

}  // namespace cohort
