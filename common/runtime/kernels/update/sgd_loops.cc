#include "common/runtime/kernels/update/update_loops.h"

#include "common/runtime/kernels/simd.h"
#include "common/runtime/kernels/update/decayed.h"

namespace cohort {

// In these files the argument structs are copied to locals (structured bindings by value) first: a
// store through float* could otherwise change them, and the compiler would read them again in every
// iteration.

COHORT_SIMD void SgdLoop(const UpdateSpan& span, float learning_rate) {
  const auto [gradient, in, out, count, decay] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = Decayed(in[i], decay) - learning_rate * gradient[i];
}

COHORT_SIMD void MomentumLoop(const UpdateSpan& span, const SlotSpan& m,
                              const MomentumRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = momentum * m_in[i] - learning_rate * gradient[i];
    m_out[i] = next;
    out[i] = Decayed(in[i], decay) + next;
  }
}

COHORT_SIMD void NesterovLoop(const UpdateSpan& span, const SlotSpan& m,
                              const MomentumRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float push = learning_rate * gradient[i];
    const float next = momentum * m_in[i] - push;
    m_out[i] = next;
    out[i] = Decayed(in[i], decay) + (momentum * next - push);
  }
}

COHORT_SIMD void GradientMomentumLoop(const UpdateSpan& span, const SlotSpan& m,
                                      const MomentumRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = momentum * m_in[i] + gradient[i];
    m_out[i] = next;
    out[i] = Decayed(in[i], decay) - learning_rate * next;
  }
}

COHORT_SIMD void GradientNesterovLoop(const UpdateSpan& span, const SlotSpan& m,
                                      const MomentumRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [m_in, m_out] = m;
  const auto [learning_rate, momentum] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float next = momentum * m_in[i] + g;
    m_out[i] = next;
    out[i] = Decayed(in[i], decay) - learning_rate * (momentum * next + g);
  }
}

COHORT_SIMD void AddLoop(const UpdateSpan& span) {
  const auto [gradient, in, out, count, decay] = span;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] + gradient[i];
}

// The value is near its average, so their difference is exact, or nearly.
COHORT_SIMD void AverageLoop(const UpdateSpan& span, const SlotSpan& average, float share) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [average_in, average_out] = average;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    average_out[i] = average_in[i] + share * (in[i] - average_in[i]);
  }
}

}  // namespace cohort
