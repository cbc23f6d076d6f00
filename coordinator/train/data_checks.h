#pragma once

// Checks of a job's data sections, data.train and data.test, before anything is trained.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace cohort {

// Returns the error for a data set, "data.train" or "data.test", without examples; it names the
// source's files.
absl::Status NoExamples(absl::string_view key, const proto::DatasetSource& source);

// Returns the IDX files of the source, one for each component of the data; none for other sources.
std::vector<std::string> IdxFilesOf(const proto::DatasetSource& source);

// Checks that examples of data.train and of data.test have the same number of components, `train`
// and `test`. Errors: INVALID_ARGUMENT.
absl::Status CheckTestComponents(size_t train, size_t test);

// The type of a batch, and the files of its components: one file per component, or no files.
struct BatchOfFiles {
  const proto::ElementSpec& batch;
  std::vector<std::string> files;
};

// Checks that programs made for batches of `data.train` can read batches of `data.test`. The type
// of labels that are class numbers is not compared, because such labels are converted to one type.
// Errors: INVALID_ARGUMENT naming the component, its files, both types and the remedy.
absl::Status CheckTestBatch(const BatchOfFiles& train, const BatchOfFiles& test);

// Returns how many of `all` examples, counted from the first, are used for training; the others are
// for validation. Errors: INVALID_ARGUMENT if fit.validation_split leaves no example for training.
absl::StatusOr<int64_t> TrainingExamples(int64_t all, double validation_split);

}  // namespace cohort
