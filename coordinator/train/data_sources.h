#pragma once

// Turns the job's data section into the sources that workers build. Files are searched for. If
// MNIST is not found, the synthetic digits replace it, provided that the job allows this.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/train/mnist_files.h"
#include "proto/plan.pb.h"

namespace cohort {

struct DataSources {
  // The name of the data in the summary: "mnist", "synthetic_digits", "idx", "click_log",
  // "synthetic_click_log".
  std::string name;
  proto::DatasetSource train;
  std::optional<proto::DatasetSource> test;
};

// Finds the sources of the training and test data. Errors: those of FindMnist. A missing file that
// the job names itself is reported later, by the worker that opens the file.
absl::StatusOr<DataSources> FindDataSources(World world, Waiter& waiter, const DataSpec& data,
                                            const MnistSearch& search, uint64_t seed);

}  // namespace cohort
