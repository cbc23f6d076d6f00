#pragma once

// From a job to the three programs that train it. A program's graph inputs are the columns of a
// batch that the model reads ("x", or the names of a functional model's inputs; symbolic batch N;
// an embedding's ids bound to rows of its table), the labels ("y") where they are used, and the
// variables, bound by name; its outputs are, in this order,
//   train_step  loss_sum, count, one sum per metric (fetched), then the new value of each variable
//               that it changes without training it (assigned; by name), then one gradient per
//               variable that it trains (pushed)
//   eval_step   loss_sum, count, one sum per metric (fetched); no dropout
//   predict     the model's output (fetched); no labels, tables whole
// loss_sum is float32, the sum of the per-example losses; count and the metric sums are float32 too
// (examples, examples counted correct), so that an epoch's figure is sum / count over all its
// batches. The pushed gradient is that of the MEAN loss over the batch.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

struct ModelPrograms {
  proto::Program train_step;
  // The programs for several replicas where they differ; an empty name where they do not. Gradients
  // are clipped when they are joined.
  proto::Program replicated_train_step;
  proto::Program eval_step;
  proto::Program predict;
  std::vector<VariableSpec> variables;  // in creation order, which is placement order
  // The names of what train_step and eval_step fetch: "loss_sum", "count", "accuracy".
  std::vector<std::string> fetch_names;
  proto::UpdateRule update_rule;  // for every trainable variable, but for its sparse mode
  // The transform that data sets apply to the labels after the job's pipeline if the loss wants
  // classes. Integer labels [N] are checked and stay as they are.
  std::optional<proto::DatasetTransform> labels;
  bool exchanges = false;  // train_step has values that its replicas join (cohort.AllReduce)
};

// Builds the programs. `batch` is the type of a batch of training data after the pipeline
// (TransformElement); model.h says which component is what. Errors: INVALID_ARGUMENT naming the
// layer, loss or metric, the type or shape it was given and the remedy.
absl::StatusOr<ModelPrograms> BuildPrograms(const JobSpec& job, const proto::ElementSpec& batch);

}  // namespace cohort
