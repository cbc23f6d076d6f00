#pragma once

// Finds the rows of a table that the ids of a batch name. Each row is listed once, in ascending
// order, and each id gets the position of its row in the list. So a row travels once even if many
// ids name it, and a graph that gathers rows by position gets them in the order of the ids. The ids
// of a dynamic table are its keys, any of the 2^64; the rows of a dynamic table are listed in the
// order of the keys' hashes (slice_spec.h).

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
  // True: a negative id names no row; false: a negative id is an error.
  bool negative_is_none = false;
  // Names the example in row `row` of the batch, for error messages. May be empty.
  std::function<std::string(int64_t row)> example_name = nullptr;
};

// The result of a lookup: the rows that the ids of all columns name, and the position of each id.
struct RowLookup {
  std::vector<int64_t> rows;
  // The position of each id in `rows`, or -1 for an id that names no row. One tensor per column,
  // with the type and shape of the column.
  std::vector<Tensor> positions;
};

// Looks up the rows of the table named `table`, which has the rows [0, num_rows). Errors:
// INVALID_ARGUMENT naming the table, the column, an id that is not a row, and the id's example;
// INVALID_ARGUMENT for ids that are neither int32 nor int64, and for 2^31 ids or more.
absl::StatusOr<RowLookup> LookUpRows(const std::string& table, int64_t num_rows,
                                     absl::Span<const IdColumn> columns);
// Looks up the rows of a dynamic table; `rows` of the result holds keys in the order of KeyOrder().
// Errors: INVALID_ARGUMENT for ids that are neither int32 nor int64, and for 2^31 ids or more.
absl::StatusOr<RowLookup> LookUpKeys(const std::string& table, absl::Span<const IdColumn> columns);

}  // namespace cohort
