#pragma once

// The outputs of a model that a step compares with labels: those with a loss or metrics. Labels are
// the components of a batch that data.labels names. Without it they are the components behind the
// model's inputs, one for each scored output in the model's order; of data with named columns, the
// column `label` for one scored output, and the columns named like the outputs for several.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/model.h"
#include "proto/plan.pb.h"

namespace cohort {

// An output of the model that a step compares with labels.
struct ScoredOutput {
  OutputSpec spec;
  size_t number = 0;  // position among the model's outputs
  // The output's name in graphs and reports; empty if the model has one output.
  std::string name;
  Shape shape;                            // shape of one example
  uint32_t labels = 0;                    // the component that has the labels
  proto::ComponentSpec labels_type;       // the type of the labels in the data sets
  std::optional<uint32_t> sample_weight;  // the component that has the examples' weights
  std::vector<MetricSpec> metrics;        // resolved metrics under the names that are reported
  std::vector<int64_t> metric_sizes;      // the number of elements of each metric's state
};

// All scored outputs of a model, and the transforms of labels that they need.
struct ScoredOutputs {
  std::vector<ScoredOutput> outputs;  // in the model's order; at least one has a loss
  // Transforms that data sets apply to labels after the job's pipeline: labels that are class
  // numbers are checked and converted to int64.
  std::vector<proto::DatasetTransform> transforms;
};

// The component that has the labels of output number `output`.
struct LabelComponent {
  size_t output = 0;
  uint32_t component = 0;
};

// Returns the job's model for batches of this type. Of named columns a Sequential model reads the
// one that has neither labels nor weights; if there is none, the labels, which data.labels then
// names. Errors: INVALID_ARGUMENT for several such columns, naming them and the ways out.
absl::StatusOr<ModelSpec> ModelForBatch(const JobSpec& job, const proto::ElementSpec& batch);

// Returns the labels of each scored output. Components past the end of the batch are returned, too.
// Errors: INVALID_ARGUMENT for a column that the data do not have.
absl::StatusOr<std::vector<LabelComponent>> FindLabels(const JobSpec& job, const Model& model);

// Returns the scored outputs for batches of this type. Errors: INVALID_ARGUMENT naming the loss,
// the metric or the key, the labels' type or the component that it cannot read, and the remedy.
absl::StatusOr<ScoredOutputs> FindScoredOutputs(const JobSpec& job, const Model& model,
                                                const proto::ElementSpec& batch);

}  // namespace cohort
