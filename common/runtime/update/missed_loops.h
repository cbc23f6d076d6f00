#pragma once

// The effect of steps without a gradient on rows, in closed form. A variable with lazily
// compensated sparse updates (common/program/update_rule.h) skips these steps for rows that no push
// contains, and makes up for the skipped steps later. One step takes the share `decay` of a value
// and scales a momentum m by b, and the momentum moves the value; so after k steps
//
//     m_k = b^k m,   v_k = (1 - decay)^k v + rate x sum over j = 1 ... k of (1 - decay)^(k-j) r^j,
//
// where x is the quantity that one step's move multiplies by the rate, and r is the factor by which
// the move shrinks from step to step. The caller passes the power and the sum to the loops as
// numbers. The loops add a rounding error of at most 2 times 2^-24 to the 5 times 2^-24 (FTRL: 6)
// of the next step (updates.h). Each `in` may equal its own `out`; no other two pointers may
// overlap.

#include <cstdint>

#include "common/runtime/update/rules/updates.h"

namespace cohort {

// The number of steps that a row has missed, and the factors that follow from this number.
struct MissedSteps {
  double count = 0;
  double decay = 0;  // the share of the value that weight decay takes in one step

  // Returns the share of the value that weight decay takes in all missed steps: 1 - (1 -
  // decay)^count.
  double Lost() const;
  // Returns the factor by which moves in all missed steps change the value: the sum over j = 1 ...
  // count of (1 - decay)^(count-j) r^j.
  double Moves(double r) const;
  // Returns the factor by which a slot fades in all missed steps: b^count, for b in [0, 1].
  double Scale(double b) const;
};

// In the loops below, except MissedFtrlLoop, span.decay is the share that weight decay takes of the
// value in all missed steps together. No loop reads the gradients.

// Reduces the value by the share span.decay and changes nothing else.
void LoseLoop(const UpdateSpan& span);
// Reduces the value by the share span.decay, then computes v += rate m.
void MoveLoop(const UpdateSpan& span, const float* m, float rate);
// The rates of MoveByRootLoop. The loop reduces the value by the share span.decay, and then
// computes v -= rate m / (sqrt(u scale) + epsilon).
struct RootMoveRates {
  float rate;
  float scale;
  float epsilon;
};
void MoveByRootLoop(const UpdateSpan& span, const AdamSlots& slots, const RootMoveRates& rates);
// The rates of MoveByNormLoop. The loop reduces the value by the share span.decay, and then
// computes v -= rate m / (u + epsilon).
struct NormMoveRates {
  float rate;
  float epsilon;
};
void MoveByNormLoop(const UpdateSpan& span, const AdamaxSlots& slots, const NormMoveRates& rates);

// Multiplies a slot of `count` elements by `factor`.
void ScaleLoop(const SlotSpan& slot, int64_t count, float factor);

// Applies `steps` steps without a gradient to FTRL's slot z, from which the value follows. The
// first step computes the value from z, whatever the value was. Each further step adds 2 shrinkage
// v (1 - decay) to z, so the excess of z over l1 fades like a power. If the shrinkage would change
// the sign of the excess, the excess becomes 0. Unlike in the other loops, `span.decay` is the
// decay of one step.
void MissedFtrlLoop(const UpdateSpan& span, const FtrlSlots& slots, const FtrlRates& rates,
                    double steps);

}  // namespace cohort
