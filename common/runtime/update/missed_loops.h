#pragma once

// The effect of steps without a gradient on rows, in closed form: the row of a variable with lazily
// compensated sparse updates missed them (common/program/update_rule.h). One step takes the share
// `decay` of a value and scales a momentum, and the momentum moves the value; so after k steps
//
//     m_k = b^k m,   v_k = (1 - decay)^k v + rate x sum over j = 1 ... k of (1 - decay)^(k-j) r^j,
//
// where x is what one step's move is made of, and r the factor by which the move shrinks from step
// to step. The loops are given both sums as numbers. They add at most 2 to the 5 (FTRL: 6) times
// 2^-24 that the next step is off by (updates.h). Each `in` may equal its own `out`; no other two
// pointers may overlap.

#include <cstdint>

#include "common/runtime/update/rules/updates.h"

namespace cohort {

struct MissedSteps {
  double count = 0;
  double decay = 0;  // the decay of one step

  // Returns 1 - (1 - decay)^count.
  double Lost() const;
  // Returns the sum above.
  double Moves(double r) const;
  // Returns b^count, for b in [0, 1].
  double Scale(double b) const;
};

// In all of these loops span.decay is the share that the value loses by all steps, and gradients
// are not read.

// Takes that share of the value, which is all that happens to it.
void LoseLoop(const UpdateSpan& span);
// Computes v += rate m.
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

// Scales a slot of `count` elements.
void ScaleLoop(const SlotSpan& slot, int64_t count, float factor);

// Moves z, from which FTRL's value follows. The first step makes the value follow z, whatever it
// was; each further one adds 2 shrinkage v (1 - decay) to z, so that the excess of z over l1 fades
// like a power. A shrinkage that would change its sign counts as one that leaves nothing.
// `span.decay` is that of one step here.
void MissedFtrlLoop(const UpdateSpan& span, const FtrlSlots& slots, const FtrlRates& rates,
                    double steps);

}  // namespace cohort
