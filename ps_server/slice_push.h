#pragma once

// What a push says beside its gradient, and what became of it in one slice.

#include <cstdint>

namespace cohort {

struct SlicePush {
  double learning_rate = 0;
  uint64_t step = 1;
  uint64_t closure_id = 0;
  uint64_t round = 0;      // 0: applied by itself
  uint32_t aggregate = 1;  // of the round's pushes, which are applied as one
  bool assign = false;     // of a round: the value itself
};

struct AppliedPush {
  bool duplicate = false;
  uint64_t version_before = 0;
  bool kept = false;     // for its round, which waits for more
  bool dropped = false;  // its round was applied without it
};

}  // namespace cohort
