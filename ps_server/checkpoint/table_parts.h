#pragma once

// The tensors of a dynamic table in a checkpoint. Each slice of the table is saved as its state and
// as parts, each with some of the slice's rows. A slice has a range of key buckets [b, e). Its
// state is whole tensors under "<variable>/.COHORT_ROWS/b-e/":
//   clock    int64[3]           the table's time; the latest step's time and coordinator
//   stripes, sights             as in table_state.h; no sights if no key was seen
//   counts   int64[3]           gradients dropped, rows expired and evicted in the job
// Part k of the slice is whole tensors under "<variable>/.COHORT_ROWS/b-e/k/":
//   keys    int64[n]            the bits of the keys, in any order
//   uses    int32[n, 2]         ticks of the table's time since the last push; number of pushes
//   values  [n, width]          in the table's own type
//   <op>/<slot>                 float32[n, width] or float32[n], for each slot of the rule
// A slice that is restored with other buckets reads the states and parts of all saved slices that
// share buckets with it, and takes its own keys from these parts. If it reads several states, it
// merges their sights (counts of seen keys without a row) so that no key's count is lower than a
// saved one. If a saved slice of a cut is read by several slices, the one with its first bucket
// takes its counts.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/dynamic_rows.h"
#include "ps_server/slice/slice_layout.h"

namespace cohort {

// The upper bound of the size in bytes of the longest tensor in a part, unless a single row is
// longer. The bound is far below the size of the largest tensor that can be sent in one message
// (kTensorBytesMax).
inline constexpr int64_t kPartBytesMax = int64_t{64} << 20;

// One tensor in which a slice of a dynamic table is saved in a checkpoint. The tensor belongs to
// the slice's state or to one of its parts.
struct PartTensor {
  std::string name;
  Tensor value;
};
// Returns the tensors in which a snapshot of a dynamic table's slice is saved. The tensors of rows
// share the snapshot's memory.
std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const SavedTable& table);

// Returns which tensors a slice with the key buckets of `layout` reads from a checkpoint that has
// `tensors`: for each saved slice that shares buckets with it, the state and then the parts.
// Errors: NOT_FOUND if the checkpoint lacks the table or one of its slots; INVALID_ARGUMENT for a
// tensor of another type or shape; DATA_LOSS if the saved slices do not cover every bucket once or
// lack a part.
absl::StatusOr<std::vector<WantedRows>> PlanTableParts(const BundleTensors& tensors,
                                                       const RestoreSource& source,
                                                       const SliceLayout& layout);
// Makes the content of a restored slice from `tensors`, the content of the tensors that `plan`
// lists, in the same order.
LoadedTable JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                           absl::Span<const WantedRows> plan, absl::Span<Tensor> tensors);

}  // namespace cohort
