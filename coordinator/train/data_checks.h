#pragma once

// Checks of a job's data sections, data.train and data.test, before anything is trained.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Checks that examples of data.train and of data.test have the same number of components, `train`
// and `test`. Errors: INVALID_ARGUMENT.
absl::Status CheckTestComponents(size_t train, size_t test);

// Checks that the batches of data.test have the same type as those of data.train, for which the
// programs are made. Errors: INVALID_ARGUMENT naming the component and both types.
absl::Status CheckTestBatch(const proto::ElementSpec& train, const proto::ElementSpec& test);

// Returns how many of `all` examples, counted from the first, are used for training; the others are
// for validation. Errors: INVALID_ARGUMENT if fit.validation_split leaves no example for training.
absl::StatusOr<int64_t> TrainingExamples(int64_t all, double validation_split);

}  // namespace cohort
