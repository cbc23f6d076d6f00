#pragma once

// The pieces of a variable: what the partitioner cuts it into, each with one home. People, names
// and placement know pieces. What travels are slices, and a piece above what one call moves is
// several of them, one after another on the piece's home (SliceHome.same_piece): it stays one
// piece, and the variable one variable of one name. In the memory of a device, and with values of
// replicas, a variable is one slice, whatever its size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tensor/slice_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariablePiece {
  std::string name;  // "dense/kernel/part_1"; the variable's own name when it is not cut
  RowRange rows;
  uint32_t ps = 0;
};
std::vector<VariablePiece> PiecesOf(const proto::VariableLayout& layout);

// Returns "dense/kernel/part_1", or the variable's own name if it is not cut.
std::string SliceName(const proto::VariableLayout& layout, int slice);

// Bytes of a slice's value and of the slots that its rule keeps beside it; of a dynamic table its
// limit, or 0.
int64_t PieceBytes(const proto::VariableLayout& layout, const proto::SliceHome& slice);

// Errors: INVALID_ARGUMENT naming the variable, its bytes and the limit, for a row that no message
// has room for, and for values of replicas, which travel together.
absl::Status CheckRowBytes(const proto::VariableLayout& layout);

// Cuts the layout's slices, each of which is a piece, so that none has more than `slice_bytes_max`
// unless it is a single row, and numbers them from `next_slice_id` on, which it advances.
void CutPieces(size_t slice_bytes_max, uint32_t& next_slice_id, proto::VariableLayout& layout);

}  // namespace cohort
