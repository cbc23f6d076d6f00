#pragma once

#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/lines.h"

namespace cohort {

// Returns the place of element k of a line in the tensor.
COHORT_DEVICE inline int64_t PlaceInLine(const DeviceLines& lines, int64_t line, int64_t k) {
  if (lines.inner == 1) return line * lines.size + k;
  const int64_t outer = line / lines.inner;
  return (outer * lines.size + k) * lines.inner + (line - outer * lines.inner);
}

// Returns the line to which element i of the tensor belongs.
COHORT_DEVICE inline int64_t LineOf(const DeviceLines& lines, int64_t i) {
  if (lines.inner == 1) return i / lines.size;
  return i / (lines.size * lines.inner) * lines.inner + i % lines.inner;
}

// The combine function of maxima, for ReduceEach. A NaN is never the largest value of a line, but
// it makes the sums of its line NaN.
struct TakeLarger {
  COHORT_DEVICE double operator()(double a, double b) const { return a > b ? a : b; }
};

// Posts the search for the largest x of each line, which is written to largest[line].
inline int32_t FindLargest(CudaContext* context, const DeviceLines& lines, const float* x,
                           double* largest) {
  const DeviceLines captured = lines;
  return ReduceEach(
      context, lines.count, lines.size, -static_cast<double>(INFINITY),
      [=] COHORT_DEVICE(int64_t line, int64_t k) {
        return static_cast<double>(x[PlaceInLine(captured, line, k)]);
      },
      TakeLarger{}, [=] COHORT_DEVICE(int64_t line, double value) { largest[line] = value; });
}

// Posts the sum of each line. For an element at place `at` of a line, the summand is term(line,
// at); the sum is passed to store(line, sum).
template <typename Term, typename Store>
int32_t AddUpLines(CudaContext* context, const DeviceLines& lines, Term term, Store store) {
  const DeviceLines captured = lines;
  return ReduceEach(
      context, lines.count, lines.size, 0.0,
      [=] COHORT_DEVICE(int64_t line, int64_t k) -> double {
        return term(line, PlaceInLine(captured, line, k));
      },
      AddUp{}, store);
}

}  // namespace cohort
