#pragma once

// A dynamic table in a checkpoint. Each slice is saved as its state and as parts of some rows; of
// the slice with buckets [b, e) the state is whole tensors under "<variable>/.COHORT_ROWS/b-e/":
//   clock    int64[3]           the table's time; the latest step's time and coordinator
//   stripes, sights             as in table_state.h; no sights where no key was seen
// and part k is whole tensors under "<variable>/.COHORT_ROWS/b-e/k/":
//   keys    int64[n]            the keys' bits, in any order
//   uses    int32[n, 2]         ticks of the table's time since the last push, pushes
//   values  [n, width]          in the table's own type
//   <op>/<slot>                 float32[n, width] or float32[n], of each slot of the rule
// A slice with other buckets reads states and parts of all slices that share some with it, and
// takes from the parts the keys that are its own. Of several states it takes the sights of all, so
// that no key counts as seen less often than it was.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/dynamic_rows.h"
#include "ps_server/slice/slice_layout.h"

namespace cohort {

// Upper bound of the longest of a part's tensors, unless a single row is longer. A tensor that is
// sent in one piece may be far larger (kTensorBytesMax).
inline constexpr int64_t kPartBytesMax = int64_t{64} << 20;

// A whole tensor of a part.
struct PartTensor {
  std::string name;
  Tensor value;
};
// Returns the parts of a snapshot, whose rows are not copied.
std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const SavedTable& table);

// Returns what a slice of these buckets wants of a checkpoint that has these tensors, part by part.
// Errors: NOT_FOUND if the checkpoint has no such table, or no such slot; INVALID_ARGUMENT for
// another type or shape; DATA_LOSS if its slices do not cover all buckets once.
absl::StatusOr<std::vector<WantedRows>> PlanTableParts(const BundleTensors& tensors,
                                                       const RestoreSource& source,
                                                       const SliceLayout& layout);
// Joins the tensors of that plan, in its order, into what the slice is given.
LoadedTable JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                           absl::Span<const WantedRows> plan, absl::Span<Tensor> tensors);

}  // namespace cohort
