#pragma once

// The index entry of one slice of a data shard, before the shard and the offset of the slice are
// known.

#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"
#include "proto/ps.pb.h"

namespace cohort {

// The infix that follows a dynamic table's name in the names of the tensors that hold the table's
// rows. The parameter servers define the text after the infix (ps_server/checkpoint/table_parts.h).
inline constexpr char kTableRowsInfix[] = "/.COHORT_ROWS/";

// The infix between a variable's name and "<optimizer>/<slot>" in the name of a slot's tensor. A
// slot of a dynamic table instead has "<optimizer>/<slot>" at the end of a name with
// kTableRowsInfix.
inline constexpr char kSlotInfix[] = "/.OPTIMIZER_SLOT/";

// Returns the shape of the rows `rows` of a tensor. A scalar keeps its shape.
Shape ShapeOfRows(const Shape& full_shape, RowRange rows);

// Returns the entry for the rows `rows` of the logical tensor `name`. The entry's shard, offset and
// checksum are not set. Errors: INVALID_ARGUMENT that names the tensor.
absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows);

}  // namespace cohort
