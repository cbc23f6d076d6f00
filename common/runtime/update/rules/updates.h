#pragma once

// Parameters and formulas of the loops of the update rules. Each loop is one pass over memory, in
// float32. Each `in` may equal its own `out`; no other two pointers may overlap. The formulas are
// Keras's (keras/src/optimizers, the classes of the same names). t is the step, counted from 1;
// loops do not see t, because the caller puts the bias correction into the rates. Two flags select
// the formulas of TensorFlow's older kernels (core/kernels/training_ops.cc) where these differ from
// Keras: Adagrad's and RMSprop's epsilon beside the root instead of under the root, and momentum as
// a sum of gradients without the learning rate.
//
// The value after one step is off by at most 5 times 2^-24 of the sizes of its summands, for FTRL
// by 6 times (update_steps_test.cc). Centered RMSprop loses in addition the digits that the
// difference of mean square and squared mean loses.
//
// This header is plain C++, because nvcc compiles it, too.

#include <cstdint>

namespace cohort {

// The spans of the value and its gradient. In the formulas of the update rules, v stands for v -
// decay v: decoupled weight decay is applied before the update. A decay of 0 leaves v as it is. The
// multiplication is done nevertheless, because it costs no time beside the access to memory.
struct UpdateSpan {
  const float* gradient;
  const float* value_in;
  float* value_out;
  int64_t count;
  float decay = 0;
};

// The memory of one slot; {nullptr, nullptr} if the rule has no such slot.
struct SlotSpan {
  const float* in = nullptr;
  float* out = nullptr;
};

// The arguments of the loop of an update rule: the spans of the value, the slots and the rates.
template <typename Slots, typename Rates>
struct RuleUpdate {
  UpdateSpan span;
  Slots slots;
  Rates rates;
};

// SGD: v -= lr g
struct SgdUpdate {
  UpdateSpan span;
  float learning_rate;
};

// SGD with momentum: m = momentum m - lr g;  v += m, or with Nesterov: v += momentum m - lr g.
// With `of_gradients`: m = momentum m + g;  v -= lr m, or with Nesterov: v -= lr (g + momentum m)
struct MomentumRates {
  float learning_rate;
  float momentum;
  bool nesterov;
  bool of_gradients;
};
using MomentumUpdate = RuleUpdate<SlotSpan, MomentumRates>;

// Adagrad: a += g^2;  v -= lr g / sqrt(a + epsilon), or lr g / (sqrt(a) + epsilon)
struct AdagradRates {
  float learning_rate;
  float epsilon;
  bool epsilon_outside_root;
};
using AdagradUpdate = RuleUpdate<SlotSpan, AdagradRates>;
// Row-wise Adagrad. Each row of `width` > 0 elements has one accumulator a: a += mean of the row's
// g^2; then v changes as in Adagrad.
struct RowwiseAdagradUpdate {
  UpdateSpan span;
  SlotSpan slots;
  int64_t width;
  AdagradRates rates;
};

// Adadelta: a = rho a + (1 - rho) g^2;  delta = g sqrt((d + epsilon) / (a + epsilon));
// d = rho d + (1 - rho) delta^2;  v -= lr delta
struct AdadeltaRates {
  float learning_rate;
  float rho;
  float one_minus_rho;
  float epsilon;
};
struct AdadeltaSlots {
  SlotSpan gradient;  // slot a of Adadelta's formulas
  SlotSpan delta;     // slot d of Adadelta's formulas
};
using AdadeltaUpdate = RuleUpdate<AdadeltaSlots, AdadeltaRates>;

// RMSprop: s = rho s + (1 - rho) g^2;  d = s;  centered: a = rho a + (1 - rho) g and d = s - a^2;
// increment = lr g / sqrt(d + epsilon), or lr g / (sqrt(d) + epsilon);
// with momentum: m = momentum m + increment and v -= m, else v -= increment.
struct RmspropRates {
  float learning_rate;
  float rho;
  float one_minus_rho;
  float momentum;
  float epsilon;
  bool epsilon_outside_root;
};
struct RmspropSlots {
  SlotSpan velocity;
  SlotSpan momentum;          // slot m; empty without momentum
  SlotSpan average_gradient;  // slot a; empty if not centered
};
using RmspropUpdate = RuleUpdate<RmspropSlots, RmspropRates>;

// Adam: m += (g - m)(1 - beta_1);  u += (g^2 - u)(1 - beta_2);
// v -= alpha m / (sqrt(u) + epsilon), where alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t).
// AMSGrad has h = max(h, u) instead of u under the root.
struct AdamRates {
  float alpha;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;
};
struct AdamSlots {
  SlotSpan m;
  SlotSpan u;
  SlotSpan u_max;  // slot h; empty without AMSGrad
};
using AdamUpdate = RuleUpdate<AdamSlots, AdamRates>;

// Adamax: m changes as in Adam;  u = max(beta_2 u, |g|);  v -= rate m / (u + epsilon), where
// rate = lr / (1 - beta_1^t).
struct AdamaxRates {
  float rate;
  float one_minus_beta_1;
  float beta_2;
  float epsilon;
};
struct AdamaxSlots {
  SlotSpan m;
  SlotSpan u;
};
using AdamaxUpdate = RuleUpdate<AdamaxSlots, AdamaxRates>;

// Nadam: m and u change as in Adam;
// v -= (momentum_rate m + gradient_rate g) / (sqrt(u scale) + epsilon), where
// scale = 1 / (1 - beta_2^t), and the two rates are lr times the factors of Nesterov's look-ahead.
struct NadamRates {
  float momentum_rate;
  float gradient_rate;
  float scale;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;
};
struct NadamSlots {
  SlotSpan m;
  SlotSpan u;
};
using NadamUpdate = RuleUpdate<NadamSlots, NadamRates>;

// Lion: v -= lr sign(beta_1 m + (1 - beta_1) g);  m = beta_2 m + (1 - beta_2) g, with the old m in
// the sign, and sign(0) = 0.
struct LionRates {
  float learning_rate;
  float beta_1;
  float one_minus_beta_1;
  float beta_2;
  float one_minus_beta_2;
};
using LionUpdate = RuleUpdate<SlotSpan, LionRates>;

// FTRL: n' = n + g^2;  z += g + 2 shrinkage v - (n'^p - n^p) / lr v, with p = -learning_rate_power;
// v = (clip(z, -l1, l1) - z) / (n'^p / lr + 2 l2);  n = n'.
// Where the quotient is 0 / 0, v is 0: this element has never had a gradient.
struct FtrlRates {
  float inverse_learning_rate;
  float power;  // p of FTRL's formulas
  float l1;
  float two_l2;  // 2 l2 of FTRL's formulas; if the rule has a beta, 2 l2 + beta / lr
  float two_shrinkage;
};
struct FtrlSlots {
  SlotSpan accumulator;  // slot n of FTRL's formulas
  SlotSpan linear;       // slot z of FTRL's formulas
};
using FtrlUpdate = RuleUpdate<FtrlSlots, FtrlRates>;

// Addition: v += g, without weight decay
struct AddUpdate {
  UpdateSpan span;
};

// Moving average: a += share (v - a). The loop writes the average only and does not read the
// gradient.
struct AverageUpdate {
  UpdateSpan span;
  SlotSpan average;
  float share;
};

// Copy from `value_in` to `value_out`, without weight decay. The loop does not read the gradient.
struct KeepUpdate {
  UpdateSpan span;
};

}  // namespace cohort
