#pragma once

// The models whose training steps `cohort_bench compute` times: each a job with the type of its
// batches after the data pipeline, and made-up batches. tests/bench/peers/pytorch_compute.py has
// the same models in PyTorch.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/tensor_file.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort::bench {

struct ComputeModel {
  std::string name;
  JobSpec job;  // without metrics, which PyTorch does not compute either
  // The last component has the labels.
  proto::ElementSpec batch;
  int classes = 0;  // labels and one-hot rows are below
  int ids = 0;      // all other whole numbers are below
  int repeats = 0;  // the number of steps that suffice for a median
};

// Returns the names of all models.
std::vector<std::string> ComputeModelNames();

// Returns a model with batches of `batch` examples, or of its own number if `batch` is 0. Errors:
// NOT_FOUND for an unknown name; those of reading a file of deploy/jobs.
absl::StatusOr<ComputeModel> FindComputeModel(const std::string& name, int batch);

// Makes a batch: floats and ids that are spread evenly, and labels that are classes. The components
// have their names, or "x" and "y".
std::vector<NamedTensor> MakeBatch(const ComputeModel& model);

}  // namespace cohort::bench
