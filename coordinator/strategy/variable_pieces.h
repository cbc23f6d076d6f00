#pragma once

// The pieces of a variable: the parts into which the partitioner cuts it, each with one home.
// Names, placement and texts for people are about pieces. Slices are what travels: if a piece is
// larger than one call may carry, it consists of several slices, one after another on the piece's
// home (SliceHome.same_piece), but remains one piece with one name. A variable in the memory of a
// device, or with one value per replica, is a single slice, whatever its size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tensor/slice_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariablePiece {
  // The piece's name: "dense/kernel/part_1", or the variable's name if the variable is not cut.
  std::string name;
  RowRange rows;
  uint32_t ps = 0;
};
std::vector<VariablePiece> PiecesOf(const proto::VariableLayout& layout);

// Returns the name of slice number `slice`: "dense/kernel/part_1", or the variable's own name if
// there is only one slice.
std::string SliceName(const proto::VariableLayout& layout, int slice);

// Returns the size in bytes of a slice's value and of the optimizer slots beside it, or the largest
// int64 if the size overflows. For a dynamic table, returns its memory limit, or 0 if it has none.
int64_t PieceBytes(const proto::VariableLayout& layout, const proto::SliceHome& slice);

// Returns the sum a + b of two sizes, or the largest int64 if it overflows.
int64_t PlusBytes(int64_t a, int64_t b);

// Checks that each row of the variable fits into one message. The values of all replicas of a
// variable travel together, so they count as one row. Errors: INVALID_ARGUMENT naming the variable,
// the size of its row and the limit.
absl::Status CheckRowBytes(const proto::VariableLayout& layout);

// Cuts each slice of the layout, which is a whole piece, into slices of at most `slice_bytes_max`
// bytes. A single row is never cut. Numbers the new slices from `next_slice_id` on, and advances
// `next_slice_id`.
void CutPieces(size_t slice_bytes_max, uint32_t& next_slice_id, proto::VariableLayout& layout);

}  // namespace cohort
