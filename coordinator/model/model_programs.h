#pragma once

// Builds the three programs of a job. The graph inputs of a program are the columns of a batch that
// the model reads ("x", or the names of a functional model's inputs; symbolic batch N; an
// embedding's ids are bound to rows of its table), the labels ("y", or "y:out" of each of several
// outputs) if the program uses them, and the variables, bound by name. The outputs are, in this
// order:
//
//   train_step  loss_sum, count, one state per metric (fetched), then the new value of each
//               variable that the step changes without training it (assigned, by name), then one
//               gradient per variable that the step trains (pushed)
//   eval_step   loss_sum, count, one state per metric (fetched); no dropout
//   predict     the model's outputs (fetched); no labels, tables whole
// loss_sum is the batch's loss times its number of examples, and count that number, both float32,
// so that the loss of an epoch is sum / count over all its batches. The loss of several outputs is
// the sum of each one's loss times its weight; if several have a loss, each loss comes before the
// metrics as one more of them, "out_loss". A metric's state is a list of
// float64 (coordinator/metrics/metric_table.h): the states of all batches add up. The pushed
// gradient is that of the batch's loss, which is the MEAN over its examples unless the loss's
// reduction says otherwise. Behind the variables come the weights of the examples, if the job has
// them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/layers/variable_spec.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

class Model;

struct ModelPrograms {
  proto::Program train_step;
  // The train step for several replicas, which clips gradients after they are joined. If train_step
  // serves several replicas as well, this program has an empty name.
  proto::Program replicated_train_step;
  proto::Program eval_step;
  proto::Program predict;
  std::vector<VariableSpec> variables;  // in creation order, which is the order of placement
  // The metrics, resolved by the shapes, in the order of their states among the fetches.
  std::vector<MetricSpec> metrics;
  std::vector<int64_t> metric_sizes;  // the number of elements of each metric's state
  // The names of the values that train_step and eval_step fetch: "loss_sum", "count", "accuracy".
  std::vector<std::string> fetch_names;
  // The update rule of every trainable variable that has no rule of its own. The sparse mode is
  // left out, because each variable has its own.
  proto::UpdateRule update_rule;
  // The transforms that data sets apply to labels after the job's pipeline, if losses take classes.
  // Integer labels [N] are checked and stay unchanged.
  std::vector<proto::DatasetTransform> labels;
  // True if replicas of train_step exchange values while they compute (cohort.AllReduce).
  bool exchanges = false;
};

// Builds the programs. `batch` is the type of a batch of training data after the pipeline
// (TransformElement); model.h says which component is which input. Errors: INVALID_ARGUMENT naming
// the layer, loss or metric, the type or shape that it was given, and the remedy.
absl::StatusOr<ModelPrograms> BuildPrograms(const JobSpec& job, const proto::ElementSpec& batch);

// Builds `predict` alone, for which the data need no labels. Errors: INVALID_ARGUMENT from the
// graph.
absl::StatusOr<proto::Program> BuildPredict(const Model& model);

}  // namespace cohort
