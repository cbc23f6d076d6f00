#include <algorithm>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/image_loops.h"

// Loops over the channels of images. If a channel has several contiguous elements, the loop over
// these elements vectorises, else the loop over channels does. Sums of a line are taken in 16
// lanes, in the same order on every instruction set, and the lanes are added in double.

namespace cohort {

namespace {

constexpr int64_t kLanes = 16;

// Returns the sum of term(i) for i in [0, count).
template <typename Term>
COHORT_INLINE double SumLine(int64_t count, Term term) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(term(i));
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

// Writes the sum of term(position, channel) over each channel to sums[channel].
template <typename Term>
COHORT_INLINE void SumEach(const BatchNormShape& shape, double* sums, Term term) {
  std::fill_n(sums, shape.channels, 0.0);
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    const int64_t first = shape.At(outer, 0);
    if (shape.inner == 1) {
      COHORT_IVDEP
      for (int64_t c = 0; c < shape.channels; ++c) {
        sums[c] += static_cast<double>(term(first + c, c));
      }
      continue;
    }
    for (int64_t c = 0; c < shape.channels; ++c) {
      const int64_t line = first + c * shape.inner;
      sums[c] += SumLine(shape.inner, [=](int64_t i) { return term(line + i, c); });
    }
  }
}

// Calls body(position, center, factor, shift, rate) for each element, with the numbers of its
// channel.
template <typename Body>
COHORT_INLINE void MapEach(const BatchNormShape& shape, const ChannelMap& map, const float* rates,
                           Body body) {
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    const int64_t first = shape.At(outer, 0);
    if (shape.inner == 1) {
      COHORT_IVDEP
      for (int64_t c = 0; c < shape.channels; ++c) {
        body(first + c, map.centers[c], map.factors[c], map.shifts[c], rates[c]);
      }
      continue;
    }
    for (int64_t c = 0; c < shape.channels; ++c) {
      const int64_t line = first + c * shape.inner;
      const float center = map.centers[c];
      const float factor = map.factors[c];
      const float shift = map.shifts[c];
      const float rate = rates[c];
      COHORT_IVDEP
      for (int64_t i = 0; i < shape.inner; ++i) body(line + i, center, factor, shift, rate);
    }
  }
}

}  // namespace

COHORT_SIMD void SumChannels(const BatchNormShape& shape, const float* x, double* sums) {
  SumEach(shape, sums, [x](int64_t i, int64_t) { return x[i]; });
}

COHORT_SIMD void SumChannelSquares(const BatchNormShape& shape, const float* x,
                                   const float* centers, double* sums) {
  SumEach(shape, sums, [x, centers](int64_t i, int64_t c) {
    const float off = x[i] - centers[c];
    return off * off;
  });
}

COHORT_SIMD void SumChannelGradients(const BatchNormShape& shape, const float* dy, const float* x,
                                     const float* centers, const GradientSums& out) {
  SumEach(shape, out.sums, [dy](int64_t i, int64_t) { return dy[i]; });
  SumEach(shape, out.products,
          [dy, x, centers](int64_t i, int64_t c) { return dy[i] * (x[i] - centers[c]); });
}

COHORT_SIMD void MapChannels(const BatchNormShape& shape, const ChannelMap& map, const float* x,
                             float* y) {
  // MapEach reads a rate for each channel, which this body ignores, so any array of that length
  // will do.
  const float* const no_rates = map.factors;
  MapEach(shape, map, no_rates, [=](int64_t i, float center, float factor, float shift, float) {
    y[i] = (x[i] - center) * factor + shift;
  });
}

COHORT_SIMD void MapChannelGradients(const BatchNormShape& shape, const ChannelMap& map,
                                     const float* rates, const float* dy, const float* x,
                                     float* dx) {
  MapEach(shape, map, rates, [=](int64_t i, float center, float factor, float shift, float rate) {
    dx[i] = dy[i] * rate + ((x[i] - center) * factor + shift);
  });
}

COHORT_SIMD void TurnLoop(const TurnedMatrix& matrix) {
  // The tiles of `in` and `out` together fit in the first-level cache.
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < matrix.rows; r0 += kTile) {
    const int64_t rows = std::min(kTile, matrix.rows - r0);
    for (int64_t c0 = 0; c0 < matrix.columns; c0 += kTile) {
      const int64_t columns = std::min(kTile, matrix.columns - c0);
      const float* const in = matrix.in + c0 * matrix.in_stride + r0;
      float* const out = matrix.out + r0 * matrix.out_stride + c0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          out[r * matrix.out_stride + c] = in[c * matrix.in_stride + r];
        }
      }
    }
  }
}

}  // namespace cohort
