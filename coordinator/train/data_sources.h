#pragma once

// Turns the data section of a job file into the data sources that workers build. The files of MNIST
// are searched for. If they are not found, synthetic digits replace MNIST, provided that the job
// allows it.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/train/mnist_files.h"
#include "proto/plan.pb.h"

namespace cohort {

struct DataSources {
  // The name of the training data in the summary of the job: "mnist", "synthetic_digits", "idx",
  // "numpy", "images", "records", "click_log" or "synthetic_click_log".
  std::string name;
  proto::DatasetSource train;
  std::optional<proto::DatasetSource> test;
};

// Checks, before anything starts, what of FindDataSources the files of this machine decide. Errors:
// those of CheckMnist, but NOT_FOUND only if the job takes no synthetic digits in the place of
// MNIST.
absl::Status CheckDataSources(FileSystem& files, const DataSpec& data, const MnistSearch& search);

// Returns the sources of the training and test data. Errors: those of FindMnist. If a file that the
// job names does not exist, the worker that opens the file reports it later.
absl::StatusOr<DataSources> FindDataSources(World world, Waiter& waiter, const DataSpec& data,
                                            const MnistSearch& search, uint64_t seed);

// Returns the data set of all examples of a source, one by one. Of files of records, functions of
// columns have been applied, because columns of texts have no type before.
proto::DatasetSpec AllExamples(const proto::DatasetSource& source, const DataSpec& data);

}  // namespace cohort
