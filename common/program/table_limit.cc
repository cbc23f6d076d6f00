#include "common/program/table_limit.h"

#include <algorithm>

namespace cohort {

uint64_t TableLimitOf(const proto::VariableLayout& layout, int slice) {
  const uint64_t limit = layout.dynamic().max_bytes();
  int first = slice;
  while (first > 0 && layout.slices(first).same_piece()) --first;
  int64_t buckets = layout.slices(first).row_count();
  for (int i = first + 1; i < layout.slices_size() && layout.slices(i).same_piece(); ++i) {
    buckets += layout.slices(i).row_count();
  }
  const int64_t own = layout.slices(slice).row_count();
  // The layout may come from a peer, and is checked elsewhere.
  if (limit == 0 || own <= 0 || own >= buckets) return limit;
  const double share =
      static_cast<double>(limit) * (static_cast<double>(own) / static_cast<double>(buckets));
  return std::min(limit, std::max(static_cast<uint64_t>(share), uint64_t{kTableBytesLeast}));
}

}  // namespace cohort
