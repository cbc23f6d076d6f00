#pragma once

// A library offers algorithms for a convolution and cannot be relied on for any: it may refuse one
// when it is to run, or there may be no memory for it. What is known beforehand orders them, and
// they are tried in that order until one runs. Nothing here knows the library.

#include <cstdint>
#include <vector>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

struct OfferedAlgorithm {
  int32_t algorithm = 0;
  bool is_possible = false;       // for this convolution, as far as the library knows
  bool is_deterministic = false;  // gives the same bits each time
};

// Returns the algorithms to try, in the library's order, fastest first; then `sure`, if it is not
// among them: the algorithm that takes every convolution and gives the same bits each time. `sure`
// is tried whatever the library says.
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

// Returns the code of the first algorithm that runs. If none does, returns that of the last one,
// which should have run and so says most. `run` is called with an algorithm and returns its code.
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
