#pragma once

// The way from the job's data section to the sources that workers build: files are found and, if
// there is no MNIST, the synthetic digits take its place if the job says so.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/train/mnist_files.h"
#include "proto/plan.pb.h"

namespace cohort {

struct DataSources {
  // The name in the summary: "mnist", "synthetic_digits", "idx", "click_log",
  // "synthetic_click_log".
  std::string name;
  proto::DatasetSource train;
  std::optional<proto::DatasetSource> test;
};

// Errors: those of FindMnist. A missing file of the job itself is reported by the worker that opens
// it.
absl::StatusOr<DataSources> FindDataSources(World world, Waiter& waiter, const DataSpec& data,
                                            const MnistSearch& search, uint64_t seed);

}  // namespace cohort
