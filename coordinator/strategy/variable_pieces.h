#pragma once

// The pieces of a variable: the parts into which the partitioner cuts it, each with one home.
// Names, placement and texts for people are about pieces. Slices are what travels: if a piece is
// larger than one call may carry, it consists of several slices, one after another on the piece's
// home (SliceHome.same_piece), but remains one piece with one name. A variable in the memory of a
// device, or with one value per replica, is a single slice, whatever its size.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
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

// Returns the bytes of a slice's value and of the slots that its update rule keeps beside the
// value, or the largest int64 if they overflow. For a dynamic table: the slice's memory limit, or 0
// without a limit.
int64_t PieceBytes(const proto::VariableLayout& layout, int slice);

// Returns the sum a + b of two sizes, or the largest int64 if it overflows.
int64_t PlusBytes(int64_t a, int64_t b);

// Checks that each row of the variable fits into one message. The values of all replicas of a
// variable travel together, so they count as one row. Errors: INVALID_ARGUMENT naming the variable,
// the size of its row and the limit.
absl::Status CheckRowBytes(const proto::VariableLayout& layout);

// Cuts the layout's slices also at the rows `starts`, where the slices of an earlier run of the job
// began: each slice then lies in one slice of that run, and can go on with its history
// (ps_server/checkpoint/checkpoint_io.h). What was one slice stays one piece. The slices of a
// dynamic table share the memory limit of the slice that they were. Rows where a slice begins
// anyway, and rows that the variable does not have, change nothing. The slices' numbers are those
// of the slices that they were, until they are numbered anew.
void CutAt(absl::Span<const int64_t> starts, proto::VariableLayout& layout);
// Cuts all layouts, and numbers their slices anew from the first number on.
void CutAt(const std::map<std::string, std::vector<int64_t>>& starts,
           absl::Span<proto::VariableLayout> layouts);

// Cuts the layout's slices, each of which is a piece or a part of one, so that no slice has more
// than `slice_bytes_max` bytes unless the slice is a single row. Numbers the slices from
// `next_slice_id` on, and advances `next_slice_id`.
void CutPieces(size_t slice_bytes_max, uint32_t& next_slice_id, proto::VariableLayout& layout);

}  // namespace cohort
