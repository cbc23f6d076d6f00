#pragma once

// The choice between the algorithms that a library offers for a convolution. No offer is reliable:
// the library may refuse an algorithm when it is to run, or there may be no memory for it. So
// algorithms are ordered by what is known beforehand, and are tried in that order until one runs.
// This header knows nothing about the library.

#include <cstdint>
#include <vector>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

struct OfferedAlgorithm {
  int32_t algorithm = 0;
  bool is_possible = false;       // whether the library knows no reason against this convolution
  bool is_deterministic = false;  // whether the algorithm gives the same bits in every run
};

// Returns the algorithms to try: the possible and deterministic ones in the library's order,
// fastest first; then `sure`, if it is not among them. `sure` takes every convolution and gives the
// same bits in every run. It is tried even if the library does not offer it.
inline std::vector<int32_t> AlgorithmsToTry(const std::vector<OfferedAlgorithm>& offered,
                                            int32_t sure) {
  std::vector<int32_t> algorithms;
  bool has_sure = false;
  for (const OfferedAlgorithm& each : offered) {
    if (!each.is_possible || !each.is_deterministic) continue;
    algorithms.push_back(each.algorithm);
    has_sure = has_sure || each.algorithm == sure;
  }
  if (!has_sure) algorithms.push_back(sure);
  return algorithms;
}

// Tries the algorithms in order and returns the code of the first that runs. If none runs, returns
// the code of the last algorithm: it should have run, so its code is the most informative. `run` is
// called with an algorithm and returns a code.
template <typename Run>
int32_t FirstThatRuns(const std::vector<int32_t>& algorithms, const Run& run) {
  int32_t code = kCudaDone;
  for (const int32_t algorithm : algorithms) {
    code = run(algorithm);
    if (code == kCudaDone) return code;
  }
  return code;
}

}  // namespace cohort
