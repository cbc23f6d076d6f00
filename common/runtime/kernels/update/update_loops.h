#pragma once

// The arithmetic of the update rules: one pass over memory per rule, float32, vectorised.
// Each `in` may equal its own `out`; no other two pointers may overlap. The formulas are Keras's
// (tf_keras/optimizers, the classes of the same names); t is the step, counted from 1, and enters
// through the caller's bias correction.

#include <cstdint>

namespace cohort {

struct UpdateSpan {
  const float* gradient;
  const float* value_in;
  float* value_out;
  int64_t count;
};

// Without one: {nullptr, nullptr}.
struct SlotSpan {
  const float* in = nullptr;
  float* out = nullptr;
};

// v -= lr g
void SgdLoop(const UpdateSpan& span, float learning_rate);

// m = momentum m - lr g;  v += m, or Nesterov: v += momentum m - lr g
struct MomentumRates {
  float learning_rate;
  float momentum;
};
void MomentumLoop(const UpdateSpan& span, const SlotSpan& m, const MomentumRates& rates);
void NesterovLoop(const UpdateSpan& span, const SlotSpan& m, const MomentumRates& rates);

// a += g^2;  v -= lr g / sqrt(a + epsilon)
struct AdagradRates {
  float learning_rate;
  float epsilon;
};
void AdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator, const AdagradRates& rates);

// s = rho s + (1 - rho) g^2;  d = s + epsilon;  increment = lr g / sqrt(d);
// centered: a = rho a + (1 - rho) g and d = s - a^2 + epsilon;
// with momentum: m = momentum m + increment and v -= m, else v -= increment.
struct RmspropRates {
  float learning_rate;
  float rho;
  float one_minus_rho;
  float momentum;
  float epsilon;
};
struct RmspropSlots {
  SlotSpan velocity;
  SlotSpan momentum;          // or none
  SlotSpan average_gradient;  // none: not centered
};
void RmspropLoop(const UpdateSpan& span, const RmspropSlots& slots, const RmspropRates& rates);

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
  SlotSpan u_max;  // none: not AMSGrad
};
void AdamLoop(const UpdateSpan& span, const AdamSlots& slots, const AdamRates& rates);

// v += g
void AddLoop(const UpdateSpan& span);

}  // namespace cohort
