#pragma once

// Lines along one axis of a tensor of [outer, size, inner]: one for each (outer, inner).

#include <cstdint>

namespace cohort {

struct DeviceLines {
  int64_t count = 0;  // outer * inner
  int64_t size = 0;
  int64_t inner = 1;
};

}  // namespace cohort
