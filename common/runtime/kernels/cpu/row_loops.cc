#include "common/runtime/kernels/cpu/row_loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

// The number of rows for which one column is copied before the next column is copied for the same
// rows. A few cache lines of each column stay in the cache, and each column is read in order.
constexpr int64_t kRowsAtOnce = 8;

// Gathers rows whose length is known at compile time. Rows of embeddings are short, and a call of
// memcpy for each row would take longer than the copy.
template <size_t kBytes, typename Index>
COHORT_INLINE void GatherFixed(const RowBlock& table, absl::Span<const Index> indices,
                               std::byte* out) {
  for (const Index index : indices) {
    std::memcpy(out, table.data + static_cast<size_t>(index) * kBytes, kBytes);
    out += kBytes;
  }
}

// Gathers rows of any length. Common lengths of embedding rows have loops of their own.
template <typename Index>
COHORT_INLINE void GatherAny(const RowBlock& table, absl::Span<const Index> indices,
                             std::byte* out) {
  switch (table.row_bytes) {
    case 16:
      return GatherFixed<16>(table, indices, out);
    case 32:
      return GatherFixed<32>(table, indices, out);
    case 64:
      return GatherFixed<64>(table, indices, out);
    case 128:
      return GatherFixed<128>(table, indices, out);
    default:
      for (const Index index : indices) {
        std::memcpy(out, table.data + static_cast<size_t>(index) * table.row_bytes,
                    table.row_bytes);
        out += table.row_bytes;
      }
  }
}

template <typename Index>
COHORT_INLINE bool AreAllBelow(absl::Span<const Index> indices, int64_t size) {
  using Unsigned = std::make_unsigned_t<Index>;
  Unsigned largest = 0;  // negative indices become unsigned numbers that are larger than any size
  for (const Index index : indices) largest = std::max(largest, static_cast<Unsigned>(index));
  return indices.empty() || static_cast<uint64_t>(largest) < static_cast<uint64_t>(size);
}

// Adds each row to the sum that the row's index selects, in double and in the order of the indices,
// so the result does not depend on the instruction set.
template <typename Index>
COHORT_INLINE void AddEach(const FloatRows& rows, absl::Span<const Index> indices, double* sums) {
  const float* row = rows.data;
  for (const Index index : indices) {
    double* const sum = sums + static_cast<size_t>(index) * rows.width;
    for (size_t i = 0; i < rows.width; ++i) sum[i] += static_cast<double>(row[i]);
    row += rows.width;
  }
}

struct Strided {
  size_t in;
  size_t out;
};

template <size_t kBytes>
COHORT_INLINE void CopyFixed(const std::byte* in, std::byte* out, int64_t rows, Strided step) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(out, in, kBytes);
    in += step.in;
    out += step.out;
  }
}

// Copies rows between memory areas with different distances from row to row; the common row lengths
// have loops of their own.
COHORT_INLINE void CopyStrided(const std::byte* in, std::byte* out, int64_t rows, size_t bytes,
                               Strided step) {
  switch (bytes) {
    case 0:
      return;
    case 32:
      return CopyFixed<32>(in, out, rows, step);
    case 64:
      return CopyFixed<64>(in, out, rows, step);
    case 128:
      return CopyFixed<128>(in, out, rows, step);
    default:
      for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(out, in, bytes);
        in += step.in;
        out += step.out;
      }
  }
}

template <typename Columns>
size_t RowBytes(const Columns& columns) {
  size_t bytes = 0;
  for (const auto& column : columns) bytes += column.row_bytes;
  return bytes;
}

}  // namespace

COHORT_SIMD bool AreInside(absl::Span<const int32_t> indices, int64_t size) {
  return AreAllBelow(indices, size);
}
COHORT_SIMD bool AreInside(absl::Span<const int64_t> indices, int64_t size) {
  return AreAllBelow(indices, size);
}

COHORT_SIMD void GatherRows(const RowBlock& table, absl::Span<const int32_t> indices,
                            std::byte* out) {
  GatherAny(table, indices, out);
}
COHORT_SIMD void GatherRows(const RowBlock& table, absl::Span<const int64_t> indices,
                            std::byte* out) {
  GatherAny(table, indices, out);
}

COHORT_SIMD void AddToRows(const FloatRows& rows, absl::Span<const int32_t> indices, double* sums) {
  AddEach(rows, indices, sums);
}
COHORT_SIMD void AddToRows(const FloatRows& rows, absl::Span<const int64_t> indices, double* sums) {
  AddEach(rows, indices, sums);
}

COHORT_SIMD void RoundLoop(absl::Span<const double> sums, float* out) {
  const double* const in = sums.data();
  const size_t count = sums.size();
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]);
}

COHORT_SIMD void JoinColumns(absl::Span<const ConstColumn> columns, int64_t rows, std::byte* out) {
  const size_t whole = RowBytes(columns);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - first);
    std::byte* to = out + static_cast<size_t>(first) * whole;
    for (const ConstColumn& column : columns) {
      CopyStrided(column.data + static_cast<size_t>(first) * column.row_bytes, to, count,
                  column.row_bytes, {column.row_bytes, whole});
      to += column.row_bytes;
    }
  }
}

COHORT_SIMD void SplitColumns(const std::byte* in, int64_t rows, absl::Span<const Column> columns) {
  const size_t whole = RowBytes(columns);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - first);
    const std::byte* from = in + static_cast<size_t>(first) * whole;
    for (const Column& column : columns) {
      // An unwanted column is not copied; its bytes in each row are skipped.
      if (column.data != nullptr) {
        CopyStrided(from, column.data + static_cast<size_t>(first) * column.row_bytes, count,
                    column.row_bytes, {whole, column.row_bytes});
      }
      from += column.row_bytes;
    }
  }
}

}  // namespace cohort
