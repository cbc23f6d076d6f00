#pragma once

// The index's entry for one slice of a data shard, before the place of the slice is known.

#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"
#include "proto/ps.pb.h"

namespace cohort {

// The infix that follows a dynamic table's name in the names of the tensors with its rows; what
// follows is the parameter servers' own (ps_server/checkpoint/table_parts.h).
inline constexpr char kTableRowsInfix[] = "/.COHORT_ROWS/";

// Between a variable's name and "<optimizer>/<slot>", in the name of the tensor with a slot. Slots
// of a dynamic table have "<optimizer>/<slot>" at the end of names below kTableRowsInfix.
inline constexpr char kSlotInfix[] = "/.OPTIMIZER_SLOT/";

// Returns the shape of `rows` of a tensor; a scalar keeps its shape.
Shape ShapeOfRows(const Shape& full_shape, RowRange rows);

// Rows `rows` of the logical tensor `name`. Shard, offset and checksum are
// left open. Errors: INVALID_ARGUMENT naming the tensor.
absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows);

}  // namespace cohort
