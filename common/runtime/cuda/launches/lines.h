#pragma once

// The lines along one axis of a tensor of [outer, size, inner]. There is one line for each pair
// (outer, inner).

#include <cstdint>

namespace cohort {

struct DeviceLines {
  int64_t count = 0;  // number of lines, outer * inner
  int64_t size = 0;
  int64_t inner = 1;
};

}  // namespace cohort
