#pragma once

// What a pull and a push say beside rows and gradient, and what became of a push in one slice.

#include <cstdint>

namespace cohort {

struct SlicePush {
  double learning_rate = 0;
  uint64_t step = 1;
  uint64_t closure_id = 0;
  uint64_t round = 0;      // 0: applied by itself
  uint32_t aggregate = 1;  // of the round's pushes, which are applied as one
  bool assign = false;     // of a round: the value itself
  uint64_t time_ms = 0;    // when its step was first sent, by the coordinator's clock
};

// For which round a step reads. A coordinator counts its rounds anew.
struct RoundRead {
  uint64_t round = 0;  // 0: of none
  uint64_t coordinator = 0;  // its incarnation
};

struct AppliedPush {
  bool duplicate = false;
  uint64_t version_before = 0;
  bool kept = false;     // for its round, which waits for more
  bool dropped = false;  // its round was applied without it
};

}  // namespace cohort
