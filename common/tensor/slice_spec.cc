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

}  // namespace cohort
