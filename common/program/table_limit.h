#pragma once

// Limits of a dynamic table's memory. The coordinator plans with them, and the parameter servers
// keep them.

#include <cstdint>

#include "proto/plan.pb.h"

namespace cohort {

// The smallest limit of the memory of a dynamic table's slice in bytes. With less, huge pages and
// the counters of seen keys would leave little memory for rows.
inline constexpr int64_t kTableBytesLeast = int64_t{8} << 20;

// Returns the memory limit of the slice number `slice` of a dynamic table in bytes; 0: no limit.
// The slices of one piece (SliceHome.same_piece) share the limit of the layout by their buckets,
// but none gets less than kTableBytesLeast.
uint64_t TableLimitOf(const proto::VariableLayout& layout, int slice);

}  // namespace cohort
