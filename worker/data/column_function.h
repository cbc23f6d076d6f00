#pragma once

// The functions of columns that a data set's pipeline applies (proto::Map): those of Keras's
// preprocessing layers, and what numbers need on their way into a model. A function sees one record
// at a time, so it does not matter how records are batched.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/data/column.h"

namespace cohort {

// Immutable; thread-safe.
class ColumnFunction {
 public:
  virtual ~ColumnFunction() = default;

  // Makes the function of `map` for columns of these types, and changes `columns` to the types that
  // it leaves. Errors: INVALID_ARGUMENT naming the function, the column, its type and the remedy.
  static absl::StatusOr<std::unique_ptr<const ColumnFunction>> Make(
      const proto::Map& map, std::vector<ColumnSpec>& columns);

  // Applies the function to a batch whose columns have the types for which it was made. Errors:
  // INVALID_ARGUMENT naming the column and the value, and with `row` set to the record's row.
  virtual absl::Status Apply(ColumnBatch& batch, int64_t* row) const = 0;
};

// Returns the name of a map's function, by which jobs call it.
const char* FunctionName(const proto::Map& map);

}  // namespace cohort
