#pragma once

// The loops of operators that move whole rows, compiled for several instruction sets
// (kernels/simd.h). A row is a run of bytes; outputs overlap no input.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace cohort {

// Rows of one length, one after another.
struct RowBlock {
  const std::byte* data;
  size_t row_bytes;
};

// Returns whether all indices are in [0, size).
bool AreInside(absl::Span<const int32_t> indices, int64_t size);
bool AreInside(absl::Span<const int64_t> indices, int64_t size);

// Copies the row of each index, one after another.
void GatherRows(const RowBlock& table, absl::Span<const int32_t> indices, std::byte* out);
void GatherRows(const RowBlock& table, absl::Span<const int64_t> indices, std::byte* out);

// Rows of floats, each `width` long.
struct FloatRows {
  const float* data;
  size_t width;
};
// Adds each row to the one of its index, in order. `sums` has rows as wide.
void AddToRows(const FloatRows& rows, absl::Span<const int32_t> indices, double* sums);
void AddToRows(const FloatRows& rows, absl::Span<const int64_t> indices, double* sums);
void RoundLoop(absl::Span<const double> sums, float* out);

// A column of a matrix whose rows are cut in parts: its rows, one after another.
struct ConstColumn {
  const std::byte* data;
  size_t row_bytes;
};
struct Column {
  std::byte* data;  // null: not wanted
  size_t row_bytes;
};
// Joins columns: each row of `out` is a row of every column.
void JoinColumns(absl::Span<const ConstColumn> columns, int64_t rows, std::byte* out);
// Splits rows into columns; the reverse of JoinColumns.
void SplitColumns(const std::byte* in, int64_t rows, absl::Span<const Column> columns);

}  // namespace cohort
