#pragma once

// Parameters and formulas of the loops of the update rules: one pass over memory per rule, in
// float32. Each `in` may equal its own `out`; no other two pointers may overlap. The formulas are
// Keras's (keras/src/optimizers, the classes of the same names); t is the step, counted from 1, and
// enters through the caller's bias correction. Two flags select those of TensorFlow's older kernels
// (core/kernels/training_ops.cc) where they differ: Adagrad's and RMSprop's epsilon beside the root
// instead of under it, and momentum as a sum of gradients, without the learning rate.
//
// One step gives a value that is off by at most 5 times 2^-24 of the sizes of its summands, 6 times
// for FTRL (update_steps_test.cc); centered RMSprop loses as many digits more as the difference of
// square and mean does.
//
// Plain C++: nvcc compiles this, too.

#include <cstdint>

namespace cohort {

// The value and its gradient. In the formulas v stands for v - decay v: decoupled weight decay,
// before the update. Without a decay that is the same number, and the extra product hides behind
// memory.
struct UpdateSpan {
  const float* gradient;
  const float* value_in;
  float* value_out;
  int64_t count;
  float decay = 0;
};

// A slot; {nullptr, nullptr}: there is none.
struct SlotSpan {
  const float* in = nullptr;
  float* out = nullptr;
};

// The parameters of most rules.
template <typename Slots, typename Rates>
struct RuleUpdate {
  UpdateSpan span;
  Slots slots;
  Rates rates;
};

// v -= lr g
struct SgdUpdate {
  UpdateSpan span;
  float learning_rate;
};

// m = momentum m - lr g;  v += m, or Nesterov: v += momentum m - lr g
// Of gradients: m = momentum m + g;  v -= lr m, or Nesterov: v -= lr (g + momentum m)
struct MomentumRates {
  float learning_rate;
  float momentum;
  bool nesterov;
  bool of_gradients;
};
using MomentumUpdate = RuleUpdate<SlotSpan, MomentumRates>;

// a += g^2;  v -= lr g / sqrt(a + epsilon), or lr g / (sqrt(a) + epsilon)
struct AdagradRates {
  float learning_rate;
  float epsilon;
  bool epsilon_outside_root;
};
using AdagradUpdate = RuleUpdate<SlotSpan, AdagradRates>;
// a, one for each row of `width` > 0 elements: a += mean of the row's g^2; then the same.
struct RowwiseAdagradUpdate {
  UpdateSpan span;
  SlotSpan slots;
  int64_t width;
  AdagradRates rates;
};

// a = rho a + (1 - rho) g^2;  delta = g sqrt((d + epsilon) / (a + epsilon));
// d = rho d + (1 - rho) delta^2;  v -= lr delta
struct AdadeltaRates {
  float learning_rate;
  float rho;
  float one_minus_rho;
  float epsilon;
};
struct AdadeltaSlots {
  SlotSpan gradient;  // a
  SlotSpan delta;     // d
};
using AdadeltaUpdate = RuleUpdate<AdadeltaSlots, AdadeltaRates>;

// s = rho s + (1 - rho) g^2;  d = s;  centered: a = rho a + (1 - rho) g and d = s - a^2;
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
  SlotSpan momentum;          // or none
  SlotSpan average_gradient;  // empty: not centered
};
using RmspropUpdate = RuleUpdate<RmspropSlots, RmspropRates>;

// m += (g - m)(1 - beta_1);  u += (g^2 - u)(1 - beta_2);  v -= alpha m / (sqrt(u) + epsilon), where
// alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t). AMSGrad: h = max(h, u) stands for u under the
// root.
struct AdamRates {
  float alpha;
  float one_minus_beta_1;
  float one_minus_beta_2;
  float epsilon;
};
struct AdamSlots {
  SlotSpan m;
  SlotSpan u;
  SlotSpan u_max;  // empty: not AMSGrad
};
using AdamUpdate = RuleUpdate<AdamSlots, AdamRates>;

// m as Adam's;  u = max(beta_2 u, |g|);  v -= rate m / (u + epsilon), where
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

// m and u as Adam's;  v -= (momentum_rate m + gradient_rate g) / (sqrt(u scale) + epsilon), where
// scale = 1 / (1 - beta_2^t) and the rates are lr times those of Nesterov's look-ahead.
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

// n' = n + g^2;  z += g + 2 shrinkage v - (n'^p - n^p) / lr v, with p = -learning_rate_power;
// v = (clip(z, -l1, l1) - z) / (n'^p / lr + 2 l2), and 0 where that is 0 / 0 (an element that has
// never had a gradient);  n = n'.
struct FtrlRates {
  float inverse_learning_rate;
  float power;  // p
  float l1;
  float two_l2;  // 2 l2, or with beta: 2 l2 + beta / lr
  float two_shrinkage;
};
struct FtrlSlots {
  SlotSpan accumulator;  // n
  SlotSpan linear;       // z
};
using FtrlUpdate = RuleUpdate<FtrlSlots, FtrlRates>;

// v += g, without decay
struct AddUpdate {
  UpdateSpan span;
};

// a += share (v - a). Writes the average only; the gradient is not read.
struct AverageUpdate {
  UpdateSpan span;
  SlotSpan average;
  float share;
};

// v = v, from in to out, without decay; the gradient is not read.
struct KeepUpdate {
  UpdateSpan span;
};

}  // namespace cohort
