#pragma once

// What the index says of one slice in a data shard, before it is known where the slice lies.

#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"
#include "proto/ps.pb.h"

namespace cohort {

// Behind a dynamic table's name begin the names of the tensors that have its rows; below here they
// are the parameter servers' own (ps_server/checkpoint/table_parts.h).
inline constexpr char kTableRowsInfix[] = "/.COHORT_ROWS/";

// Between a variable's name and "<optimizer>/<slot>", in the name of the tensor with a slot. Slots
// of a dynamic table have "<optimizer>/<slot>" at the end of names below kTableRowsInfix.
inline constexpr char kSlotInfix[] = "/.OPTIMIZER_SLOT/";

// A scalar keeps its shape.
Shape ShapeOfRows(const Shape& full_shape, RowRange rows);

// Rows `rows` of the logical tensor `name`. Shard, offset and checksum are
// left open. Errors: INVALID_ARGUMENT naming the tensor.
absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows);

}  // namespace cohort
