#include "common/runtime/kernels/cpu/pool_squares.h"

#include <cstddef>

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

bool IsOfPairs(const WindowAxis& axis) {
  return axis.kernel == 2 && axis.stride == 2 && axis.dilation == 1 && axis.pad_begin == 0 &&
         2 * axis.output <= axis.input;
}

// Returns `then` if `value` beats `best` as the largest element, else `otherwise`. An equal value
// does not beat `best`, so the first of equal elements stays; a NaN always beats `best`. The choice
// has two steps, which compilers turn into vector code without branches.
COHORT_INLINE float IfBeats(float value, float best, float then, float otherwise) {
  const float of_larger = value > best ? then : otherwise;
  return value != value ? then : of_larger;
}

COHORT_INLINE float LargerOf(float value, float best) { return IfBeats(value, best, value, best); }

// Writes the larger of in[i] and in[i + 1] to largest[i]; the last element has no neighbour and is
// skipped.
COHORT_SIMD void LargestOfPairs(const float* in, int64_t count, float* largest) {
  COHORT_IVDEP
  for (int64_t i = 0; i + 1 < count; ++i) largest[i] = LargerOf(in[i + 1], in[i]);
}

// Writes the largest element of each square: the larger of two numbers, which are the largest
// element of the square's upper row and that of its lower row. Squares begin at even columns.
COHORT_SIMD void LargestOfRows(const float* above, const float* below, int64_t count, float* out) {
  COHORT_IVDEP
  for (int64_t o = 0; o < count; ++o) out[o] = LargerOf(below[2 * o], above[2 * o]);
}

// Assigns the gradient of each square to the square's upper or lower row, whichever has the largest
// element.
COHORT_SIMD void ChooseRows(const float* in, int64_t width, int64_t count, const float* spread,
                            float* upper, float* lower) {
  const float* const next = in + width;
  COHORT_IVDEP
  for (int64_t i = 0; i < count; ++i) {
    const float above = LargerOf(in[i + 1], in[i]);
    const float below = LargerOf(next[i + 1], next[i]);
    lower[i] = IfBeats(below, above, spread[i], 0.0f);
    upper[i] = IfBeats(below, above, 0.0f, spread[i]);
  }
}

// Assigns the gradient of each row of a square to the row's left or right element, whichever is
// larger. An element is in at most one square, so at most one of the summands for an element is not
// zero. The plane's first element is the left one of its square; the plane's last element is the
// right one of its square or in no square.
COHORT_SIMD void ChooseColumns(const float* in, int64_t width, int64_t count, const float* upper,
                               const float* lower, float* dx) {
  const float* const lower_before = lower - width;
  dx[0] = IfBeats(in[1], in[0], 0.0f, upper[0]);
  COHORT_IVDEP
  for (int64_t i = 1; i + 1 < count; ++i) {
    const float as_left = upper[i] + lower_before[i];
    const float as_right = upper[i - 1] + lower_before[i - 1];
    dx[i] = IfBeats(in[i + 1], in[i], 0.0f, as_left) + IfBeats(in[i], in[i - 1], as_right, 0.0f);
  }
  const int64_t last = count - 1;
  dx[last] = IfBeats(in[last], in[last - 1], lower_before[last - 1], 0.0f);
}

}  // namespace

bool IsOfSquares(const PlaneWindow& window) {
  return IsOfPairs(window.rows) && IsOfPairs(window.columns);
}

SquarePool::SquarePool(const PlaneWindow& window)
    : width_(window.columns.input), rows_(window.rows.output), columns_(window.columns.output) {}

void SquarePool::Max(const float* in, float* out) {
  const int64_t count = 2 * rows_ * width_;
  largest_.resize(static_cast<size_t>(count));
  LargestOfPairs(in, count, largest_.data());
  for (int64_t row = 0; row < rows_; ++row) {
    const float* const above = largest_.data() + 2 * row * width_;
    LargestOfRows(above, above + width_, columns_, out + row * columns_);
  }
}

void SquarePool::Gradient(const float* in, const float* dy, float* dx) {
  const int64_t count = 2 * rows_ * width_;
  const int64_t before = width_ + 1;
  spread_.resize(static_cast<size_t>(count));
  upper_.resize(static_cast<size_t>(before + count));
  lower_.resize(static_cast<size_t>(before + count));
  float* const upper = upper_.data() + before;
  float* const lower = lower_.data() + before;
  // Elements of `spread_` at which no square of the pooling begins stay zero.
  for (int64_t row = 0; row < rows_; ++row) {
    float* const to = spread_.data() + 2 * row * width_;
    for (int64_t o = 0; o < columns_; ++o) to[2 * o] = dy[row * columns_ + o];
  }
  ChooseRows(in, width_, count - before, spread_.data(), upper, lower);
  ChooseColumns(in, width_, count, upper, lower, dx);
}

}  // namespace cohort
