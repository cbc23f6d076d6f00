#pragma once

// Deals pieces out to parameter servers one after another, without knowing which pieces follow.
// Round robin, TensorFlow's order: the k-th piece goes to server k mod P of the P servers in index
// order; slices and scalars count alike. By bytes: the piece goes to the server that has been given
// the fewest bytes so far, and to the first such server if several have equally few. A piece that
// is colocated with another variable takes no turn, but its bytes count. Servers are named by task
// index, so the indices of a cluster may have gaps.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace cohort {

enum class PlacementPolicy { kRoundRobin, kBytes, kMeasured };

// Thread-compatible.
class Placer {
 public:
  // Makes a placer for these task indices, in ascending order. There are no measurements of
  // variables that are created one by one, so kMeasured counts bytes here, like kBytes.
  Placer(std::vector<int> ps, PlacementPolicy policy)
      : ps_(std::move(ps)), policy_(policy), given_(ps_.size(), 0) {
    COHORT_CHECK(!ps_.empty(), "placement needs at least one ps");
  }

  uint32_t Place(int64_t bytes) {
    const size_t least =
        static_cast<size_t>(std::min_element(given_.begin(), given_.end()) - given_.begin());
    const size_t chosen = policy_ == PlacementPolicy::kRoundRobin ? counter_++ % ps_.size() : least;
    given_[chosen] += bytes;
    return static_cast<uint32_t>(ps_[chosen]);
  }
  void Colocate(uint32_t ps, int64_t bytes) {
    const auto found = std::find(ps_.begin(), ps_.end(), static_cast<int>(ps));
    if (found != ps_.end()) given_[static_cast<size_t>(found - ps_.begin())] += bytes;
  }

 private:
  const std::vector<int> ps_;
  const PlacementPolicy policy_;
  std::vector<int64_t> given_;  // bytes given to each server, by position in `ps_`
  uint64_t counter_ = 0;
};

}  // namespace cohort
