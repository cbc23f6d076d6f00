#pragma once

// The way from the ids of a batch to the rows that they name: each row once, in ascending order,
// and for each id its row's position among them. So a row that is named often travels once, and
// what a graph gathers by position comes back in the order of the ids. The ids of a dynamic table
// are its keys, any of the 2^64, and come in the order of their hashes (key_bucket.h).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A column of ids, int32 or int64, whose first axis counts the examples of a batch.
struct IdColumn {
  std::string name;  // named in errors
  const Tensor* ids = nullptr;
  bool negative_is_none = false;  // else a negative id is an error
};

struct RowLookup {
  std::vector<int64_t> rows;
  std::vector<Tensor> positions;  // one per column, of its type and shape; -1 without an id
};

// Looks up the rows of `table`, [0, num_rows). Errors: INVALID_ARGUMENT naming the table, the
// column, the id that is not a row and its example; for ids of another type.
absl::StatusOr<RowLookup> LookUpRows(const std::string& table, int64_t num_rows,
                                     absl::Span<const IdColumn> columns);
// Looks up the keys of a dynamic table, in the order of KeyOrder. Errors: for ids of another type.
absl::StatusOr<RowLookup> LookUpKeys(const std::string& table, absl::Span<const IdColumn> columns);

}  // namespace cohort
