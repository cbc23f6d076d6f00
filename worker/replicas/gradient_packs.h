#pragma once

// How gradients travel between GPUs: one behind the other in one run of elements, in the order of
// outputs, which is cut into packs. A gradient may lie in two of them; in the run it is whole.

#include <cstdint>
#include <vector>

namespace cohort {

// Elements of the run.
struct GradientPack {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const GradientPack&, const GradientPack&) = default;
};

// `elements`: of each gradient. So many packs, none of which has an element more than another
// needs; 0: each gradient by itself. Those without elements are left out.
std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs);

}  // namespace cohort
