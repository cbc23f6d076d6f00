#pragma once

// Bodies of Adagrad, Adadelta and RMSprop: the effect of one update on one element (update_body.h).

#include "common/runtime/update/rules/update_body.h"

namespace cohort {

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

template <typename Run>
COHORT_INLINE auto WithBody(const AdadeltaUpdate& update, const Run& run) {
  return run(AdadeltaBody{update});
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

}  // namespace cohort
