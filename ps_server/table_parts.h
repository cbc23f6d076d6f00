#pragma once

// Rows of a dynamic table in a checkpoint. Each slice is saved as parts of some rows,
// part k of the slice with buckets [b, e) as whole tensors under "<variable>/.COHORT_ROWS/b-e/k/":
//   keys    int64[n]            the keys' bits, in any order
//   uses    int32[n, 2]         ticks since the last push (row_policy.h), pushes
//   values  [n, width]          in the table's own type
//   <op>/<slot>                 float32[n, width] or float32[n], of each slot of the rule
// A slice with other buckets reads the parts of all slices that share some with it, and takes from
// them the keys that are its own.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/checkpoint_io.h"

namespace cohort {

// Of the longest of a part's tensors, unless a single row is longer. A tensor that is sent in one
// piece has far more (kTensorBytesMax).
inline constexpr int64_t kPartBytesMax = int64_t{64} << 20;

// One tensor of a part, whole.
struct PartTensor {
  std::string name;
  Tensor value;
};
// Of a snapshot's rows, which are not copied.
std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const TableRows& rows);

// What a slice of these buckets wants of a checkpoint that has these tensors, part by part. Errors:
// NOT_FOUND where it has no such table, or no such slot; INVALID_ARGUMENT for another type or
// shape; DATA_LOSS where its slices do not cover all buckets once.
absl::StatusOr<std::vector<WantedRows>> PlanTableParts(const BundleTensors& tensors,
                                                       const RestoreSource& source,
                                                       const SliceLayout& layout);
// The same tensors, in the plan's order, as parts.
std::vector<TableRows> JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                                      absl::Span<Tensor> tensors);

}  // namespace cohort
