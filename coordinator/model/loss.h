#pragma once

// Adds the loss and the metrics of an output to a step's graph, with Keras's meaning. If the model
// ends in softmax or sigmoid, a crossentropy is computed from the input of that softmax or sigmoid,
// as in Keras. The formulas are in the tables of coordinator/losses and coordinator/metrics.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/graph_builder.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/losses/loss_reduction.h"
#include "proto/plan.pb.h"

namespace cohort {

// Checks that the metrics can read the labels of the loss. Errors: INVALID_ARGUMENT naming a metric
// that cannot.
absl::Status CheckMetrics(const CompileSpec& compile);

// Checks the labels of an output. Errors: INVALID_ARGUMENT, with the remedy, if labels of type `y`
// or the output's shape do not fit the loss or a metric.
absl::Status CheckLabels(const OutputSpec& spec, const Shape& output,
                         const proto::ComponentSpec& y);

// Returns whether the data sets have to turn the labels into class numbers (proto::ClassLabels),
// which checks them before a step runs.
bool TakesClasses(const LossSpec& loss, const Shape& output);

// Returns one of the types of labels that the output's loss can read, or, without a loss, its first
// metric.
proto::ComponentSpec ReadableLabels(const OutputSpec& spec, const Shape& output);

// Returns a component of a batch as a value of a graph.
NodeValue ValueOf(const std::string& name, const proto::ComponentSpec& component);

// Adds the weight of each example by the class of its label, a float32 in the shape of the classes.
// A class without an entry has the weight 1.
NodeValue AddClassWeights(const LossSpec& loss, const NodeValue& labels,
                          const std::map<int64_t, double>& weights, FormulaNodes& nodes);

// The values that a step computes of one output beside gradients. The first two are float32
// scalars, and empty for an output without a loss.
struct StepLoss {
  std::string mean;                  // the weighted loss, from which gradients are taken
  std::string sum;                   // the weighted loss times the number of examples
  std::string unweighted_sum;        // the loss without loss_weight times the number of examples
  std::string examples;              // the number of examples, a float32 scalar
  std::vector<std::string> metrics;  // the state of each metric, a list of float64
};

// The output of a model that a loss compares with labels, in Keras's order.
struct LossOutput {
  std::string value;
  std::string logits;       // the input of the final softmax or sigmoid; empty if there is none
  const Shape& shape;       // shape of one example
  std::string prefix = "";  // begins the names of the output's nodes: "out/"; "" for one output
};

// Adds loss and metrics. `metrics` are resolved (ResolveMetric). Errors: INVALID_ARGUMENT naming a
// metric that cannot read the labels.
absl::StatusOr<StepLoss> AddStepLoss(const OutputSpec& spec, const std::vector<MetricSpec>& metrics,
                                     const LossOutput& output, const NodeValue& labels,
                                     const ExampleWeights& weights, FormulaNodes& nodes);

// Returns the metrics that the spec's stand for beside these labels.
std::vector<MetricSpec> ResolvedMetrics(const OutputSpec& spec, const NodeValue& labels,
                                        const Shape& output);
// Returns the number of elements of each metric's state.
std::vector<int64_t> StateSizes(const std::vector<MetricSpec>& metrics, const Shape& output);

}  // namespace cohort
