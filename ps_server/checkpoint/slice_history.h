#pragma once

// The history of a slice in a checkpoint. It makes the checkpoint a cut, to which training can go
// back exactly: beside each slice lies a whole int64 tensor "<variable>/.COHORT_APPLIED/<first
// row>", taken at the same instant: number of rows, version, watermark, update, round, and then
// first and last id of each interval of applied closures.

#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/bundle.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

std::string HistoryTensorName(const SliceLayout& layout);

Tensor EncodeHistory(const SliceLayout& layout, const SliceHistory& history);

// Returns what a restore reads for the slice's history, from a checkpoint that has these tensors.
// Errors: FAILED_PRECONDITION if the checkpoint was made with other slices; DATA_LOSS.
absl::StatusOr<WantedRows> WantedHistory(const BundleTensors& tensors, const RestoreSource& source,
                                         const SliceLayout& layout);

// Reads the history from `fields`, which WantedHistory asked for. Errors: those of WantedHistory.
absl::StatusOr<SliceHistory> ReadHistory(const Tensor& fields, const RestoreSource& source,
                                         const SliceLayout& layout);

}  // namespace cohort
