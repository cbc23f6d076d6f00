#pragma once

// Finds the rows that the ids of a batch name. Each row is listed once, in ascending order, and
// each id gets the position of its row in the list. So a row that many ids name travels once, and a
// graph that gathers values by position gets them in the order of the ids. The ids of a dynamic
// table are its keys, any of the 2^64; their rows are listed in the order of the keys' hashes
// (slice_spec.h).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A column of ids, int32 or int64. Its first axis counts the examples of a batch.
struct IdColumn {
  std::string name;  // name of the column, for error messages
  const Tensor* ids = nullptr;
  bool negative_is_none = false;  // true: a negative id names no row; false: it is an error
  // Names the example that is in a row of the batch, for error messages.
  std::function<std::string(int64_t row)> example_name = nullptr;
};

// The result of a lookup: all rows that the ids of the columns name, and the position of each id.
struct RowLookup {
  std::vector<int64_t> rows;
  // The positions of the ids in `rows`: one tensor per column, with the type and shape of the
  // column; -1 for an id that names no row.
  std::vector<Tensor> positions;
};

// Looks up rows of `table`, which has the rows [0, num_rows). Errors: INVALID_ARGUMENT naming the
// table, the column, the id that is not a row and its example; INVALID_ARGUMENT for ids of another
// type.
absl::StatusOr<RowLookup> LookUpRows(const std::string& table, int64_t num_rows,
                                     absl::Span<const IdColumn> columns);
// Looks up the keys of a dynamic table, in the order of KeyOrder. Errors: INVALID_ARGUMENT for ids
// of another type.
absl::StatusOr<RowLookup> LookUpKeys(const std::string& table, absl::Span<const IdColumn> columns);

}  // namespace cohort
