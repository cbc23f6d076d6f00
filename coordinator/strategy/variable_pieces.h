#pragma once

// The pieces of a variable: the parts that the partitioner cuts the variable into, each with one
// home. People, names and placement deal with pieces. Slices are what travels. A piece that is
// larger than one call may carry consists of several slices, one after another on the piece's home
// (SliceHome.same_piece); it still is one piece of one variable with one name. A variable in the
// memory of a device, or with own values of replicas, is one slice, whatever its size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tensor/slice_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariablePiece {
  std::string name;  // "dense/kernel/part_1", or the variable's own name if it is not cut
  RowRange rows;
  uint32_t ps = 0;
};
std::vector<VariablePiece> PiecesOf(const proto::VariableLayout& layout);

// Returns the name of a slice: "dense/kernel/part_1", or the variable's own name if it is not cut.
std::string SliceName(const proto::VariableLayout& layout, int slice);

// Returns the bytes of a slice's value and of the slots that its update rule keeps beside the
// value, or the largest int64 if they overflow. For a dynamic table: its memory limit, or 0 without
// a limit.
int64_t PieceBytes(const proto::VariableLayout& layout, const proto::SliceHome& slice);

// Returns the sum of two numbers of bytes, or the largest int64 if the sum overflows.
int64_t PlusBytes(int64_t a, int64_t b);

// Checks that the rows of a variable can travel. Errors: INVALID_ARGUMENT naming the variable, its
// bytes and the limit, for a row that is larger than a message may be. The own values of replicas
// travel together, so together they count as one row.
absl::Status CheckRowBytes(const proto::VariableLayout& layout);

// Cuts the layout's slices, each of which is a piece, so that no slice has more than
// `slice_bytes_max` bytes unless the slice is a single row. Numbers the slices from `next_slice_id`
// on, and advances `next_slice_id`.
void CutPieces(size_t slice_bytes_max, uint32_t& next_slice_id, proto::VariableLayout& layout);

}  // namespace cohort
