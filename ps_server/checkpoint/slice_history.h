#pragma once

// The history of a slice in a checkpoint. It makes the checkpoint a cut, to which training can go
// back exactly. Beside each slice the checkpoint has a whole int64 tensor
// "<variable>/.COHORT_APPLIED/<first row>", taken at the same instant as the slice. Its elements
// are the number of rows, version, watermark, update and round, and then the first and the last id
// of each interval of applied closures.

#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/bundle.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

std::string HistoryTensorName(const SliceLayout& layout);

Tensor EncodeHistory(const SliceLayout& layout, const SliceHistory& history);

// Returns the tensor that a restore reads for the slice's history, from a checkpoint that has
// `tensors`. Errors: FAILED_PRECONDITION if the checkpoint was made with other slices; DATA_LOSS.
absl::StatusOr<WantedRows> WantedHistory(const BundleTensors& tensors, const RestoreSource& source,
                                         const SliceLayout& layout);

// Decodes a slice's history from `fields`, the tensor that WantedHistory asked for. Errors: those
// of WantedHistory.
absl::StatusOr<SliceHistory> ReadHistory(const Tensor& fields, const RestoreSource& source,
                                         const SliceLayout& layout);

}  // namespace cohort
