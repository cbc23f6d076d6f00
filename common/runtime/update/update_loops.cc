#include "common/runtime/update/update_loops.h"

#include <algorithm>
#include <cmath>

#include "common/runtime/update/rules/update_bodies.h"

namespace cohort {

namespace {

struct EachElement {
  template <typename Body>
  COHORT_INLINE void operator()(const Body& body) const {
    const Body copy = body;
    const int64_t count = copy.update.span.count;
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) copy(i);
  }
};

// Runs the body of `update` for every element on the processor. The loop is vectorised if the
// caller is compiled with COHORT_SIMD.
template <typename Update>
COHORT_INLINE void LoopOverBody(const Update& update) {
  WithBody(update, EachElement());
}

// Updates single rows by Adagrad, eight elements at a time. Rows are short, and the code around a
// loop of unknown length would cost as much as the row.
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
      EachElement()(AdagradBody<kOutside>{{octet, {sum + i, sum + i}, rates}});
    }
    const UpdateSpan rest = {row.gradient + i, value + i, value + i, width - i, decay};
    EachElement()(AdagradBody<kOutside>{{rest, {sum + i, sum + i}, rates}});
  }
}

// The number of elements of a row that are computed at a time; the remaining elements are computed
// one by one. Rows are short, and the code that a compiler puts around a loop of unknown length
// costs as much as the row itself.
constexpr int64_t kPiece = 16;

// Returns the sum of the squares of `count` values. The order of additions does not depend on the
// instruction set.
COHORT_INLINE float SumOfSquares(const float* values, int64_t count) {
  float sums[kPiece] = {};
  int64_t i = 0;
  for (; i + kPiece <= count; i += kPiece) {
    COHORT_IVDEP
    for (int64_t k = 0; k < kPiece; ++k) sums[k] += values[i + k] * values[i + k];
  }
  // The partial sums are added pairwise, in an order that vectorises.
  float fours[4];
  for (int64_t k = 0; k < 4; ++k) fours[k] = (sums[k] + sums[k + 4]) + (sums[k + 8] + sums[k + 12]);
  float sum = (fours[0] + fours[1]) + (fours[2] + fours[3]);
  for (; i < count; ++i) sum += values[i] * values[i];
  return sum;
}

// Updates the row that begins at element `begin` of `span`: v -= rate g, after weight decay.
COHORT_INLINE void UpdateRow(const UpdateSpan& span, int64_t begin, int64_t width, float rate) {
  const float* const gradient = span.gradient + begin;
  const float* const in = span.value_in + begin;
  float* const out = span.value_out + begin;
  const float decay = span.decay;
  int64_t i = 0;
  for (; i + kPiece <= width; i += kPiece) {
    COHORT_IVDEP
    for (int64_t k = i; k < i + kPiece; ++k) out[k] = Decayed(in[k], decay) - rate * gradient[k];
  }
  for (; i < width; ++i) out[i] = Decayed(in[i], decay) - rate * gradient[i];
}

}  // namespace

// Each RunLoop is compiled for several instruction sets; the loop over the elements is inlined into
// each version.
COHORT_SIMD void RunLoop(const SgdUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const MomentumUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdagradUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdadeltaUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const RmspropUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdamUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AdamaxUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const NadamUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const LionUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const FtrlUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AddUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const AverageUpdate& update) { LoopOverBody(update); }
COHORT_SIMD void RunLoop(const KeepUpdate& update) { LoopOverBody(update); }

COHORT_SIMD void AdagradRowsLoop(absl::Span<const RowUpdate> rows, const RowsSpan& span,
                                 const AdagradRates& rates) {
  rates.epsilon_outside_root ? AdagradRows<true>(rows, span, rates)
                             : AdagradRows<false>(rows, span, rates);
}

// Updates a few rows at a time in three passes: one computes the rows' sums of squares, one their
// rates, and one the values. The roots and quotients of many rows are computed at once, and no row
// waits for the root and quotient of the row before it. The rows of three passes are so few that
// the processor, which prefetches memory that is read in order, does not stop prefetching.
COHORT_SIMD void RunLoop(const RowwiseAdagradUpdate& update) {
  const auto [span, accumulator, width, rates] = update;
  const auto [gradient, in, out, count, decay] = span;
  const auto [sum_in, sum_out] = accumulator;
  const auto [learning_rate, epsilon, outside] = rates;
  // Row-wise Adagrad adds the mean, not the sum, of a row's squared gradients to the accumulator.
  const float share = 1.0f / static_cast<float>(width);
  constexpr int64_t kRowsAtOnceMax = 64;
  constexpr int64_t kElementsAtOnce = 128;
  float of_rows[kRowsAtOnceMax];
  const int64_t rows = count / width;
  const int64_t rows_at_once = std::clamp<int64_t>(kElementsAtOnce / width, 1, kRowsAtOnceMax);
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
      UpdateRow({gradient, in, out, count, decay}, row * width, width, of_rows[row - first]);
    }
  }
}

}  // namespace cohort
