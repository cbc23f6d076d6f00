#pragma once

// Round-robin placement: the k-th piece placed goes to ps k mod P. One counter for all pieces,
// slices and scalars alike; what is colocated with another variable takes no turn.

#include <cstdint>

#include "common/base/check.h"

namespace cohort {

// Thread-compatible.
class Placer {
 public:
  explicit Placer(uint32_t num_ps) : num_ps_(num_ps) {
    COHORT_CHECK(num_ps > 0, "placement needs at least one ps");
  }
  uint32_t Next() { return static_cast<uint32_t>(counter_++ % num_ps_); }

 private:
  const uint32_t num_ps_;
  uint64_t counter_ = 0;
};

}  // namespace cohort
