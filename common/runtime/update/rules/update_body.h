#pragma once

// Bodies: a body is the effect of one update rule of updates.h on element i. The processor's loops
// and the devices' loops (cuda/backend/updates.cu) are made of the same bodies, so each formula is
// written once.
//
// A body has its own copy of the rule's parameters: a store through float* could otherwise change
// them, and the compiler would have to read them again in every iteration. Options are template
// arguments, so that no iteration tests them; WithBody(update, run) calls run with the body for the
// options of `update`.

#include <cmath>
#include <cstdint>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/update/rules/updates.h"

namespace cohort {

// Returns the value after weight decay. 1 - decay is not computed first, because a decay is far
// smaller than float32's steps around 1.
COHORT_BODY float Decayed(float value, float decay) { return value - decay * value; }

// Returns element i of the value before the update, after weight decay.
COHORT_BODY float ValueAt(const UpdateSpan& span, int64_t i) {
  return Decayed(span.value_in[i], span.decay);
}

// Computes slot += (x - slot) share for element i and returns the slot's new value.
COHORT_BODY float MovedTo(float x, const SlotSpan& slot, int64_t i, float share) {
  const float next = slot.in[i] + (x - slot.in[i]) * share;
  slot.out[i] = next;
  return next;
}

}  // namespace cohort
