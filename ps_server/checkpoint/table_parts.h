#pragma once

// The tensors of a dynamic table in a checkpoint. Each slice is saved as its state and as parts
// with some rows each. The state of the slice with buckets [b, e) is whole tensors under
// "<variable>/.COHORT_ROWS/b-e/":
//   clock    int64[3]           the table's time; the latest step's time and coordinator
//   stripes, sights             as in table_state.h; no sights if no key was seen
// Part k of the slice is whole tensors under "<variable>/.COHORT_ROWS/b-e/k/":
//   keys    int64[n]            the bits of the keys, in any order
//   uses    int32[n, 2]         ticks of the table's time since the last push, pushes
//   values  [n, width]          in the table's own type
//   <op>/<slot>                 float32[n, width] or float32[n], for each slot of the rule
// A slice with other buckets reads the states and parts of all saved slices that share buckets with
// it, and takes its own keys from the parts. Of several states it merges the sights, so that no key
// counts as seen less often than it was.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/dynamic_rows.h"
#include "ps_server/slice/slice_layout.h"

namespace cohort {

// The upper bound of the bytes in the longest tensor of a part, unless a single row is longer. A
// tensor that is sent in one piece may be far larger (kTensorBytesMax).
inline constexpr int64_t kPartBytesMax = int64_t{64} << 20;

// One whole tensor of a table's slice in a checkpoint: of its state or of a part.
struct PartTensor {
  std::string name;
  Tensor value;
};
// Returns the tensors that save a snapshot of a table; they share the snapshot's memory.
std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const SavedTable& table);

// Returns the tensors that a slice with the layout's buckets reads from a checkpoint that has
// `tensors`, part by part. Errors: NOT_FOUND if the checkpoint has no such table, or no such slot;
// INVALID_ARGUMENT for another type or shape; DATA_LOSS if the saved slices do not cover every
// bucket once.
absl::StatusOr<std::vector<WantedRows>> PlanTableParts(const BundleTensors& tensors,
                                                       const RestoreSource& source,
                                                       const SliceLayout& layout);
// Joins the tensors that `plan` asks for, in the order of the plan, into the content that the slice
// gets.
LoadedTable JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                           absl::Span<const WantedRows> plan, absl::Span<Tensor> tensors);

}  // namespace cohort
