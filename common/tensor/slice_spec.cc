#include "common/tensor/slice_spec.h"

#include <algorithm>

#include "common/base/check.h"

namespace cohort {

std::vector<RowRange> DivRows(int64_t rows, int64_t slices) {
  COHORT_CHECK(rows >= 1 && slices >= 1, "at least one row and one slice");
  const int64_t count = std::min(rows, slices);
  const int64_t base = rows / count;
  const int64_t extra = rows % count;
  std::vector<RowRange> ranges;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = base + (i < extra ? 1 : 0);
    ranges.push_back({begin, length});
    begin += length;
  }
  return ranges;
}

SliceRow FindRow(int64_t row, int64_t rows, int64_t slices) {
  COHORT_CHECK(row >= 0 && row < rows, "a row of the variable");
  const int64_t count = std::min(rows, slices);
  const int64_t base = rows / count;
  const int64_t extra = rows % count;
  // The first `extra` slices have base + 1 rows each, and the later slices have base rows each. For
  // a row in one of the first `extra` slices, the first quotient is the larger one and is the
  // slice. For any other row, the second quotient is.
  const int64_t slice = std::max(row / (base + 1), (row - extra) / base);
  const int64_t local = slice < extra ? row % (base + 1) : (row - extra) % base;
  return {slice, local};
}

}  // namespace cohort
