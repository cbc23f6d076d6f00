#pragma once

// Round-robin placement: the k-th piece placed goes to server k mod P of the P parameter servers in
// index order. One counter for all pieces, slices and scalars alike; what is colocated with another
// variable takes no turn. Servers are named by task index, so a cluster may have holes.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace cohort {

// Thread-compatible.
class Placer {
 public:
  // `ps`: task indices, ascending.
  explicit Placer(std::vector<int> ps) : ps_(std::move(ps)) {
    COHORT_CHECK(!ps_.empty(), "placement needs at least one ps");
  }
  uint32_t Next() { return static_cast<uint32_t>(ps_[counter_++ % ps_.size()]); }

 private:
  const std::vector<int> ps_;
  uint64_t counter_ = 0;
};

}  // namespace cohort
