#pragma once

// Bodies of Adam, Adamax and Nadam: the effect of one update on one element (update_body.h).

#include "common/runtime/update/rules/update_body.h"

namespace cohort {

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

template <typename Run>
COHORT_INLINE auto WithBody(const AdamaxUpdate& update, const Run& run) {
  return run(AdamaxBody{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const NadamUpdate& update, const Run& run) {
  return run(NadamBody{update});
}

}  // namespace cohort
