#pragma once

#include "common/runtime/update/rules/update_body.h"

namespace cohort {

struct EachElement {
  template <typename Body>
  COHORT_INLINE void operator()(const Body& body) const {
    const Body copy = body;
    const int64_t count = copy.update.span.count;
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) copy(i);
  }
};

// Loops over the body of `update` on the processor. The loop is vectorised if the caller is
// COHORT_SIMD.
template <typename Update>
COHORT_INLINE void LoopOverBody(const Update& update) {
  WithBody(update, EachElement());
}

}  // namespace cohort
