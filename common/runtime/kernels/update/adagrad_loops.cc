#include "common/runtime/kernels/update/update_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/runtime/kernels/simd.h"
#include "common/runtime/kernels/update/decayed.h"

namespace cohort {

namespace {

template <bool kOutside>
COHORT_INLINE float Root(float sum, float epsilon) {
  return kOutside ? std::sqrt(sum) + epsilon : std::sqrt(sum + epsilon);
}

template <bool kOutside>
COHORT_INLINE void AdagradBody(const UpdateSpan& span, const SlotSpan& accumulator,
                               const AdagradRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon, outside] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float next = sum_in[i] + gradient[i] * gradient[i];
    sum_out[i] = next;
    out[i] = Decayed(in[i], decay) - learning_rate * gradient[i] / Root<kOutside>(next, epsilon);
  }
}

// Eight elements at a time: a row is short, and what surrounds a loop of unknown length would cost
// as much as the row.
template <bool kOutside>
COHORT_INLINE void AdagradRows(absl::Span<const RowUpdate> rows, const RowsSpan& span,
                               const AdagradRates& rates) {
  constexpr int64_t kOctet = 8;
  const auto [width, decay] = span;
  for (const RowUpdate& row : rows) {
    float* const value = row.value;
    float* const sum = row.slots[0];
    int64_t i = 0;
    for (; i + kOctet <= width; i += kOctet) {
      const UpdateSpan octet = {row.gradient + i, value + i, value + i, kOctet, decay};
      AdagradBody<kOutside>(octet, {sum + i, sum + i}, rates);
    }
    const UpdateSpan rest = {row.gradient + i, value + i, value + i, width - i, decay};
    AdagradBody<kOutside>(rest, {sum + i, sum + i}, rates);
  }
}

// Rows are short, so their loops are written in vectors: what a compiler puts around a loop whose
// length it does not know costs as much as the row itself. Four lanes, because inlined helpers are
// lowered for the baseline first, and wider vectors fall apart there.
using Quad = float __attribute__((vector_size(16)));
constexpr int64_t kQuad = 4;

COHORT_INLINE Quad Load(const float* values) {
  Quad quad;
  std::memcpy(&quad, values, sizeof(quad));
  return quad;
}

COHORT_INLINE float SumOfSquares(const float* values, int64_t count) {
  Quad a = {};
  Quad b = {};
  Quad c = {};
  Quad d = {};
  int64_t i = 0;
  for (; i + 4 * kQuad <= count; i += 4 * kQuad) {
    const Quad x0 = Load(values + i);
    const Quad x1 = Load(values + i + kQuad);
    const Quad x2 = Load(values + i + 2 * kQuad);
    const Quad x3 = Load(values + i + 3 * kQuad);
    a += x0 * x0;
    b += x1 * x1;
    c += x2 * x2;
    d += x3 * x3;
  }
  const Quad all = (a + b) + (c + d);
  float sum = (all[0] + all[1]) + (all[2] + all[3]);
  for (; i < count; ++i) sum += values[i] * values[i];
  return sum;
}

// Fetched lines may lie behind the end of an array: that is no access.
COHORT_INLINE void Prefetch(const float* values, int64_t count) {
  constexpr int64_t kCacheLine = 16;  // elements
  for (int64_t i = 0; i < count; i += kCacheLine) __builtin_prefetch(values + i, /*write=*/1);
}

// A row of `span` from element `begin` on: v -= rate g.
COHORT_INLINE void UpdateRow(const UpdateSpan& span, int64_t begin, int64_t width, float rate) {
  const float* const gradient = span.gradient + begin;
  const float* const in = span.value_in + begin;
  float* const out = span.value_out + begin;
  const float decay = span.decay;
  int64_t i = 0;
  for (; i + kQuad <= width; i += kQuad) {
    const Quad v = Load(in + i);
    const Quad next = v - v * decay - Load(gradient + i) * rate;
    std::memcpy(out + i, &next, sizeof(next));
  }
  for (; i < width; ++i) out[i] = Decayed(in[i], decay) - rate * gradient[i];
}

}  // namespace

COHORT_SIMD void AdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator,
                             const AdagradRates& rates) {
  rates.epsilon_outside_root ? AdagradBody<true>(span, accumulator, rates)
                             : AdagradBody<false>(span, accumulator, rates);
}

COHORT_SIMD void AdagradRowsLoop(absl::Span<const RowUpdate> rows, const RowsSpan& span,
                                 const AdagradRates& rates) {
  rates.epsilon_outside_root ? AdagradRows<true>(rows, span, rates)
                             : AdagradRows<false>(rows, span, rates);
}

// Sums, then rates, then values, each for some rows: roots and quotients are of many rows at once,
// and no row waits for that before it. In a long span the rows that come then are fetched
// meanwhile, and at its end those behind it, which are a ps's next; else memory would wait while
// its last rows are worked on.
COHORT_SIMD void RowwiseAdagradLoop(const UpdateSpan& span, const SlotSpan& accumulator,
                                    int64_t width, const AdagradRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon, outside] = rates;
  const float share = 1.0f / static_cast<float>(width);
  constexpr int64_t kRowsAtOnceMax = 64;
  constexpr int64_t kElementsAtOnce = 1024;
  float of_rows[kRowsAtOnceMax];
  const int64_t rows = count / width;
  const int64_t rows_at_once = std::clamp<int64_t>(kElementsAtOnce / width, 1, kRowsAtOnceMax);
  const bool fetches = rows > rows_at_once;
  for (int64_t first = 0; first < rows; first += rows_at_once) {
    const int64_t last = std::min(first + rows_at_once, rows);
    for (int64_t row = first; row < last; ++row) {
      of_rows[row - first] = SumOfSquares(gradient + row * width, width);
    }
    COHORT_IVDEP
    for (int64_t row = first; row < last; ++row) {
      const float next = sum_in[row] + of_rows[row - first] * share;
      sum_out[row] = next;
      const float inside = outside ? next : next + epsilon;
      of_rows[row - first] = learning_rate / (std::sqrt(inside) + (outside ? epsilon : 0));
    }
    for (int64_t row = first; row < last; ++row) {
      if (fetches) {
        Prefetch(gradient + (row + rows_at_once) * width, width);
        Prefetch(in + (row + rows_at_once) * width, width);
      }
      UpdateRow({gradient, in, out, count, decay}, row * width, width, of_rows[row - first]);
    }
  }
}

COHORT_SIMD void AdadeltaLoop(const UpdateSpan& span, const AdadeltaSlots& slots,
                              const AdadeltaRates& rates) {
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = slots.gradient;
  const auto [delta_in, delta_out] = slots.delta;
  const auto [learning_rate, rho, one_minus_rho, epsilon] = rates;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    const float sum = rho * sum_in[i] + one_minus_rho * g * g;
    const float delta = g * std::sqrt((delta_in[i] + epsilon) / (sum + epsilon));
    sum_out[i] = sum;
    delta_out[i] = rho * delta_in[i] + one_minus_rho * delta * delta;
    out[i] = Decayed(in[i], decay) - learning_rate * delta;
  }
}

}  // namespace cohort
