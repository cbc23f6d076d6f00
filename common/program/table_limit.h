#pragma once

#include <cstdint>

#include "proto/plan.pb.h"

namespace cohort {

// Returns the memory limit of the slice number `slice` of a dynamic table in bytes; 0: no limit.
// The slices of one piece (SliceHome.same_piece) share the limit of the layout by their buckets,
// but none gets less than kTableBytesLeast.
uint64_t TableLimitOf(const proto::VariableLayout& layout, int slice);

}  // namespace cohort
