#pragma once

// Bodies of SGD, and of the parts that all optimizers share: the effect of one update on one
// element (update_body.h).

#include "common/runtime/update/rules/update_body.h"

namespace cohort {

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

// The body of the moving average. The value is near its average, so their difference is computed
// exactly or nearly so.
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
COHORT_INLINE auto WithBody(const SgdUpdate& update, const Run& run) {
  return run(SgdBody{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const MomentumUpdate& update, const Run& run) {
  const MomentumRates& rates = update.rates;
  if (rates.of_gradients) {
    return rates.nesterov ? run(GradientMomentumBody<true>{update})
                          : run(GradientMomentumBody<false>{update});
  }
  return rates.nesterov ? run(MomentumBody<true>{update}) : run(MomentumBody<false>{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const AddUpdate& update, const Run& run) {
  return run(AddBody{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const AverageUpdate& update, const Run& run) {
  return run(AverageBody{update});
}

template <typename Run>
COHORT_INLINE auto WithBody(const KeepUpdate& update, const Run& run) {
  return run(KeepBody{update});
}

}  // namespace cohort
