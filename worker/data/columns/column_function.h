#pragma once

// The functions of columns that a data set's pipeline applies (proto::Map): those of Keras's
// preprocessing layers, and what numbers need on their way into a model. A function sees one record
// at a time, so it does not matter how records are batched.

#include <cstdint>

#include "absl/status/status.h"
#include "worker/data/columns/column.h"

namespace cohort {

// A function of columns, made by MakeColumnFunction for columns of given types. Immutable;
// thread-safe.
class ColumnFunction {
 public:
  virtual ~ColumnFunction() = default;

  // Applies the function to a batch whose columns have the types for which it was made. Errors:
  // INVALID_ARGUMENT naming the column and the value, and with `row` set to the record's row.
  virtual absl::Status Apply(ColumnBatch& batch, int64_t* row) const = 0;
};

}  // namespace cohort
