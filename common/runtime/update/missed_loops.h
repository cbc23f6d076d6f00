#pragma once

// What steps without a gradient do to rows, in closed form: the row of a variable with lazily
// compensated sparse updates missed them (common/program/update_rule.h). One step loses `decay` of
// a value and scales a momentum, and the momentum moves the value; so after k steps
//   m_k = b^k m,   v_k = (1 - decay)^k v + rate x sum over j = 1 ... k of (1 - decay)^(k-j) r^j,
// where x is what one step's move is made of, and r how much less it is from step to step. The
// loops take what is left when both sums are numbers. They add at most 2 to the 5 (FTRL: 6) times
// 2^-24 that the step after them is off by (updates.h). Each `in` may equal its own `out`; no
// other two pointers may overlap.

#include <cstdint>

#include "common/runtime/update/rules/updates.h"

namespace cohort {

struct MissedSteps {
  double count = 0;
  double decay = 0;  // of one step

  // 1 - (1 - decay)^count.
  double Lost() const;
  // The sum above.
  double Moves(double r) const;
  // b^count, b in [0, 1].
  double Scale(double b) const;
};

// In all of these span.decay is what the value loses by all steps, and gradients are not read.

// The value loses that, and nothing else happens to it.
void LoseLoop(const UpdateSpan& span);
// v += rate m
void MoveLoop(const UpdateSpan& span, const float* m, float rate);
// v -= rate m / (sqrt(u scale) + epsilon)
struct RootMoveRates {
  float rate;
  float scale;
  float epsilon;
};
void MoveByRootLoop(const UpdateSpan& span, const AdamSlots& slots, const RootMoveRates& rates);
// v -= rate m / (u + epsilon)
struct NormMoveRates {
  float rate;
  float epsilon;
};
void MoveByNormLoop(const UpdateSpan& span, const AdamaxSlots& slots, const NormMoveRates& rates);

// A slot of `count` elements.
void ScaleLoop(const SlotSpan& slot, int64_t count, float factor);

// FTRL's value follows from z. The first step makes it do so, whatever the value was; each further
// one takes 2 shrinkage v (1 - decay) to z, so that what z has beyond l1 fades like a power. A
// shrinkage that would make it change its sign counts as one that leaves nothing. `span.decay` is
// that of one step here.
void MissedFtrlLoop(const UpdateSpan& span, const FtrlSlots& slots, const FtrlRates& rates,
                    double steps);

}  // namespace cohort
