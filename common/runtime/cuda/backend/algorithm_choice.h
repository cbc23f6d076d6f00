#pragma once

// The choice between the algorithms that a library such as cuDNN offers for a convolution. An offer
// is no promise: the library may refuse to run the algorithm, or there may be no memory for the
// algorithm. So algorithms are ordered by what is known before a run, and are tried in that order
// until one runs. This header knows nothing about the library.

#include <cstdint>
#include <vector>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

struct OfferedAlgorithm {
  int32_t algorithm = 0;
  bool is_possible = false;       // whether the convolution can be computed by the algorithm
  bool is_deterministic = false;  // whether the algorithm gives the same bits in every run
};

// Returns the convolution algorithms to try: first the offered ones that are possible and
// deterministic, in the library's order, which puts the fastest first; then `sure`, unless it was
// among them. The algorithm `sure` computes every convolution with the same bits in every run, so
// it is tried even if the library does not offer it.
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

// Tries algorithms in order until one runs. `run` is called with an algorithm and returns an error
// code. Returns kCudaDone if an algorithm ran, else the error code of the last algorithm, which is
// the most informative because the last algorithm should always run.
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
