#pragma once

// Bodies: the effect of a loop of updates.h on element i. The processor's loops are made of bodies,
// and so are those of devices (cuda/backend/updates.cu): each formula stands in one place.
//
// A body has its own copy of its parameters: a store through float* could otherwise change them,
// and the compiler would read them again in every iteration. Options are template arguments, so
// that no iteration asks for them; WithBody(update, run) calls run with the body for the options of
// `update`.

#include <cmath>
#include <cstdint>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/update/rules/updates.h"

namespace cohort {

// Decays a value. A decay is far below float32's steps around 1, so 1 - decay is not formed.
COHORT_BODY float Decayed(float value, float decay) { return value - decay * value; }

// Returns the value before the update.
COHORT_BODY float ValueAt(const UpdateSpan& span, int64_t i) {
  return Decayed(span.value_in[i], span.decay);
}

// Computes slot += (x - slot) share and returns the new value of the slot.
COHORT_BODY float MovedTo(float x, const SlotSpan& slot, int64_t i, float share) {
  const float next = slot.in[i] + (x - slot.in[i]) * share;
  slot.out[i] = next;
  return next;
}

}  // namespace cohort
