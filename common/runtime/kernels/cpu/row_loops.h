#pragma once

// The loops of operators that move whole rows, compiled for several instruction sets
// (common/runtime/kernel/simd.h). A row is a run of bytes; outputs overlap no input.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace cohort {

// Rows of equal length, one after another in memory.
struct RowBlock {
  const std::byte* data;
  size_t row_bytes;
};

// Returns whether all indices are in [0, size).
bool AreInside(absl::Span<const int32_t> indices, int64_t size);
bool AreInside(absl::Span<const int64_t> indices, int64_t size);

// Copies for each index the row of the table with this number; the copies lie in `out` one after
// another.
void GatherRows(const RowBlock& table, absl::Span<const int32_t> indices, std::byte* out);
void GatherRows(const RowBlock& table, absl::Span<const int64_t> indices, std::byte* out);

// Rows of floats, each with `width` elements.
struct FloatRows {
  const float* data;
  size_t width;
};
// Adds row i of `rows` to row number indices[i] of `sums`, in ascending order of i. Rows of `sums`
// have the width of `rows`.
void AddToRows(const FloatRows& rows, absl::Span<const int32_t> indices, double* sums);
void AddToRows(const FloatRows& rows, absl::Span<const int64_t> indices, double* sums);
void RoundLoop(absl::Span<const double> sums, float* out);

// A column of a matrix whose rows are cut into parts: a column holds the parts of all rows at one
// position in the row, one after another.
struct ConstColumn {
  const std::byte* data;
  size_t row_bytes;
};
struct Column {
  std::byte* data;  // memory for the column's parts; null: the column is not wanted
  size_t row_bytes;
};
// Joins columns: each row of `out` consists of one part from every column.
void JoinColumns(absl::Span<const ConstColumn> columns, int64_t rows, std::byte* out);
// Splits rows into columns, the reverse of JoinColumns.
void SplitColumns(const std::byte* in, int64_t rows, absl::Span<const Column> columns);

}  // namespace cohort
