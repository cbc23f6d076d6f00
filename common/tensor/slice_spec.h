#pragma once

// A variable is cut along axis 0 into slices of consecutive rows by TensorFlow's "div" rule: n
// slices of d rows have d / n rows each, and the first d % n of them one more: 13 over 5 gives 3,
// 3, 3, 2, 2. A scalar is one slice that counts as one row.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace cohort {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
  friend bool operator==(const RowRange& a, const RowRange& b) {
    return a.begin == b.begin && a.count == b.count;
  }
};

// Divides `rows` into `slices`, or into as many slices as there are rows if `slices` is larger
// (TensorFlow's min(n, dim0)). Both are at least 1.
std::vector<RowRange> DivRows(int64_t rows, int64_t slices);

// The slice that holds `row`, by the closed form of the rule. `row` must be in [0, rows).
struct SliceRow {
  int64_t slice = 0;
  int64_t local_row = 0;
};
SliceRow FindRow(int64_t row, int64_t rows, int64_t slices);

}  // namespace cohort
