#pragma once

// The bodies of update loops. A body is the effect of one update rule of updates.h on element i of
// a variable. The processor's loops and the devices' loops (cuda/backend/updates.cu) are made of
// the same bodies, so each formula is written once.
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

// Returns element i of the value before the update, reduced by weight decay.
COHORT_BODY float ValueAt(const UpdateSpan& span, int64_t i) {
  return Decayed(span.value_in[i], span.decay);
}

// Computes slot += (x - slot) share for element i of a slot, and returns the new element of the
// slot.
COHORT_BODY float MovedTo(float x, const SlotSpan& slot, int64_t i, float share) {
  const float next = slot.in[i] + (x - slot.in[i]) * share;
  slot.out[i] = next;
  return next;
}

struct SgdBody {
  SgdUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const UpdateSpan& span = update.span;
    span.value_out[i] = ValueAt(span, i) - update.learning_rate * span.gradient[i];
  }
};

template <bool kNesterov>
struct MomentumBody {
  MomentumUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, m, rates] = update;
    const float push = rates.learning_rate * span.gradient[i];
    const float next = rates.momentum * m.in[i] - push;
    m.out[i] = next;
    span.value_out[i] = ValueAt(span, i) + (kNesterov ? rates.momentum * next - push : next);
  }
};

template <bool kNesterov>
struct GradientMomentumBody {
  MomentumUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, m, rates] = update;
    const float g = span.gradient[i];
    const float next = rates.momentum * m.in[i] + g;
    m.out[i] = next;
    const float moved = kNesterov ? rates.momentum * next + g : next;
    span.value_out[i] = ValueAt(span, i) - rates.learning_rate * moved;
  }
};

struct AddBody {
  AddUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    update.span.value_out[i] = update.span.value_in[i] + update.span.gradient[i];
  }
};

// The body of the moving average. The value is close to its average, so the difference of the two
// has almost no rounding error.
struct AverageBody {
  AverageUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    MovedTo(update.span.value_in[i], update.average, i, update.share);
  }
};

struct KeepBody {
  KeepUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    update.span.value_out[i] = update.span.value_in[i];
  }
};

template <typename Run>
COHORT_INLINE auto WithBody(const MomentumUpdate& update, const Run& run) {
  const MomentumRates& rates = update.rates;
  if (rates.of_gradients) {
    return rates.nesterov ? run(GradientMomentumBody<true>{update})
                          : run(GradientMomentumBody<false>{update});
  }
  return rates.nesterov ? run(MomentumBody<true>{update}) : run(MomentumBody<false>{update});
}

template <bool kOutside>
COHORT_BODY float RootOf(float sum, float epsilon) {
  return kOutside ? sqrtf(sum) + epsilon : sqrtf(sum + epsilon);
}

template <bool kOutside>
struct AdagradBody {
  AdagradUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, accumulator, rates] = update;
    const float g = span.gradient[i];
    const float next = accumulator.in[i] + g * g;
    accumulator.out[i] = next;
    span.value_out[i] =
        ValueAt(span, i) - rates.learning_rate * g / RootOf<kOutside>(next, rates.epsilon);
  }
};

struct AdadeltaBody {
  AdadeltaUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float sum = rates.rho * slots.gradient.in[i] + rates.one_minus_rho * g * g;
    const float delta_in = slots.delta.in[i];
    const float delta = g * sqrtf((delta_in + rates.epsilon) / (sum + rates.epsilon));
    slots.gradient.out[i] = sum;
    slots.delta.out[i] = rates.rho * delta_in + rates.one_minus_rho * delta * delta;
    span.value_out[i] = ValueAt(span, i) - rates.learning_rate * delta;
  }
};

template <bool kMomentum, bool kCentered, bool kOutside>
struct RmspropBody {
  RmspropUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float next = rates.rho * slots.velocity.in[i] + rates.one_minus_rho * g * g;
    slots.velocity.out[i] = next;
    float variance = next;
    if constexpr (kCentered) {
      const SlotSpan& average = slots.average_gradient;
      const float mean = rates.rho * average.in[i] + rates.one_minus_rho * g;
      average.out[i] = mean;
      variance = next - mean * mean;
    }
    float increment = rates.learning_rate * g / RootOf<kOutside>(variance, rates.epsilon);
    if constexpr (kMomentum) {
      increment = rates.momentum * slots.momentum.in[i] + increment;
      slots.momentum.out[i] = increment;
    }
    span.value_out[i] = ValueAt(span, i) - increment;
  }
};

template <typename Run>
COHORT_INLINE auto WithBody(const AdagradUpdate& update, const Run& run) {
  return update.rates.epsilon_outside_root ? run(AdagradBody<true>{update})
                                           : run(AdagradBody<false>{update});
}

template <bool kMomentum, bool kCentered, typename Run>
COHORT_INLINE auto WithRmspropBody(const RmspropUpdate& update, const Run& run) {
  return update.rates.epsilon_outside_root ? run(RmspropBody<kMomentum, kCentered, true>{update})
                                           : run(RmspropBody<kMomentum, kCentered, false>{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const RmspropUpdate& update, const Run& run) {
  const bool centered = update.slots.average_gradient.out != nullptr;
  if (update.slots.momentum.out != nullptr) {
    return centered ? WithRmspropBody<true, true>(update, run)
                    : WithRmspropBody<true, false>(update, run);
  }
  return centered ? WithRmspropBody<false, true>(update, run)
                  : WithRmspropBody<false, false>(update, run);
}

template <bool kAmsgrad>
struct AdamBody {
  AdamUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float mean = MovedTo(g, slots.m, i, rates.one_minus_beta_1);
    float square = MovedTo(g * g, slots.u, i, rates.one_minus_beta_2);
    if constexpr (kAmsgrad) {
      const float largest = slots.u_max.in[i];
      square = largest > square ? largest : square;
      slots.u_max.out[i] = square;
    }
    span.value_out[i] = ValueAt(span, i) - rates.alpha * mean / (sqrtf(square) + rates.epsilon);
  }
};

struct AdamaxBody {
  AdamaxUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float mean = MovedTo(g, slots.m, i, rates.one_minus_beta_1);
    const float kept = rates.beta_2 * slots.u.in[i];
    const float size = fabsf(g);
    const float norm = kept > size ? kept : size;
    slots.u.out[i] = norm;
    span.value_out[i] = ValueAt(span, i) - rates.rate * mean / (norm + rates.epsilon);
  }
};

struct LionBody {
  LionUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, m, rates] = update;
    const float g = span.gradient[i];
    const float old = m.in[i];
    const float mixed = old * rates.beta_1 + g * rates.one_minus_beta_1;
    // A NaN has no sign; it must not become a step of some size.
    const float sign = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : mixed;
    m.out[i] = old * rates.beta_2 + g * rates.one_minus_beta_2;
    span.value_out[i] = ValueAt(span, i) - rates.learning_rate * sign;
  }
};

struct NadamBody {
  NadamUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float mean = MovedTo(g, slots.m, i, rates.one_minus_beta_1);
    const float square = MovedTo(g * g, slots.u, i, rates.one_minus_beta_2);
    span.value_out[i] = ValueAt(span, i) - (rates.momentum_rate * mean + rates.gradient_rate * g) /
                                               (sqrtf(square * rates.scale) + rates.epsilon);
  }
};

template <typename Run>
COHORT_INLINE auto WithBody(const AdamUpdate& update, const Run& run) {
  return update.slots.u_max.out != nullptr ? run(AdamBody<true>{update})
                                           : run(AdamBody<false>{update});
}

// BodyOf returns the body of an update rule that has no options.
COHORT_INLINE SgdBody BodyOf(const SgdUpdate& update) { return {update}; }
COHORT_INLINE AddBody BodyOf(const AddUpdate& update) { return {update}; }
COHORT_INLINE AverageBody BodyOf(const AverageUpdate& update) { return {update}; }
COHORT_INLINE KeepBody BodyOf(const KeepUpdate& update) { return {update}; }
COHORT_INLINE AdadeltaBody BodyOf(const AdadeltaUpdate& update) { return {update}; }
COHORT_INLINE AdamaxBody BodyOf(const AdamaxUpdate& update) { return {update}; }
COHORT_INLINE NadamBody BodyOf(const NadamUpdate& update) { return {update}; }
COHORT_INLINE LionBody BodyOf(const LionUpdate& update) { return {update}; }

template <typename Update, typename Run>
COHORT_INLINE auto WithBody(const Update& update, const Run& run) {
  return run(BodyOf(update));
}

// Computes a power. A device computes it in double: powf of a device is off by up to 4 units of the
// last place, which is too much for FTRL.
COHORT_BODY float PowerOf(float base, float power) {
#ifdef __CUDA_ARCH__
  return static_cast<float>(pow(static_cast<double>(base), static_cast<double>(power)));
#else
  return powf(base, power);
#endif
}

// The body of one FTRL step. Both powers are computed from accumulators as the slot stores them. So
// the differences of powers over many steps add up to the power by which the last step divides, and
// z stays consistent with that divisor.
template <bool kSquareRoot>
struct FtrlBody {
  FtrlUpdate update;

  COHORT_BODY void operator()(int64_t i) const {
    const auto& [span, slots, rates] = update;
    const float g = span.gradient[i];
    const float v = ValueAt(span, i);
    const float sum_in = slots.accumulator.in[i];
    const float sum = sum_in + g * g;
    const float root = Power(sum, rates.power);
    const float sigma = (root - Power(sum_in, rates.power)) * rates.inverse_learning_rate;
    const float z = slots.linear.in[i] + (g + rates.two_shrinkage * v - sigma * v);
    float clipped = z > rates.l1 ? rates.l1 : z;
    clipped = clipped < -rates.l1 ? -rates.l1 : clipped;
    const float numerator = clipped - z;
    const float quotient = numerator / (root * rates.inverse_learning_rate + rates.two_l2);
    slots.accumulator.out[i] = sum;
    slots.linear.out[i] = z;
    span.value_out[i] = numerator == 0 ? 0 : quotient;
  }

  static COHORT_BODY float Power(float base, float power) {
    return kSquareRoot ? sqrtf(base) : PowerOf(base, power);
  }
};

template <typename Run>
COHORT_INLINE auto WithBody(const FtrlUpdate& update, const Run& run) {
  return update.rates.power == 0.5f ? run(FtrlBody<true>{update}) : run(FtrlBody<false>{update});
}

}  // namespace cohort
