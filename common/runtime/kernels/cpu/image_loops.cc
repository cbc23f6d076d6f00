#include "common/runtime/kernels/cpu/image_loops.h"

#include <algorithm>
#include <limits>

#include "common/runtime/kernel/simd.h"
#include "common/runtime/kernels/cpu/lane_sums.h"

namespace cohort {

namespace {

// For one tap (position in the window) and one row of outputs: the range [first, last) of outputs
// for which the tap falls on an input, and the input position of output `first`.
struct TapRun {
  int64_t first;
  int64_t last;
  int64_t input;
};

COHORT_INLINE TapRun RunOf(const WindowAxis& axis, int64_t tap) {
  // Input position of the tap for output 0.
  const int64_t offset = tap * axis.dilation - axis.pad_begin;
  const int64_t first = offset >= 0 ? 0 : (-offset + axis.stride - 1) / axis.stride;
  const int64_t reach = axis.input - 1 - offset;
  const int64_t last = reach < 0 ? 0 : std::min(reach / axis.stride + 1, axis.output);
  return {first, std::max(first, last), first * axis.stride + offset};
}

// For each tap of one row of outputs whose input row exists, calls visit(offset of the input row in
// the plane, TapRun of the tap along this row).
template <typename Visit>
COHORT_INLINE void ForEachRowTap(const PlaneWindow& window, int64_t output_row, Visit&& visit) {
  const WindowAxis& rows = window.rows;
  for (int64_t k = 0; k < rows.kernel; ++k) {
    const int64_t input_row = rows.InputAt(output_row, k);
    if (input_row < 0 || input_row >= rows.input) continue;
    for (int64_t tap = 0; tap < window.columns.kernel; ++tap) {
      visit(input_row * window.columns.input, RunOf(window.columns, tap));
    }
  }
}

// Calls body(i, i * stride) for i in [0, count). For the strides 1 and 2, the stride is a constant
// in the loop, so that the loop vectorises.
template <typename Body>
COHORT_INLINE void Strided(int64_t count, int64_t stride, Body&& body) {
  if (stride == 1) {
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) body(i, i);
  } else if (stride == 2) {
    COHORT_IVDEP
    for (int64_t i = 0; i < count; ++i) body(i, 2 * i);
  } else {
    for (int64_t i = 0; i < count; ++i) body(i, i * stride);
  }
}

// Returns whether `value` replaces `best` as the largest element of a window. An equal value does
// not replace `best`, so the first of equal elements stays. A NaN always replaces `best`, so of
// several NaNs the last one stays.
COHORT_INLINE bool Beats(float value, float best) { return value > best || value != value; }

// The loops over channels vectorise over the contiguous elements of one channel, or over the
// channels if those are contiguous.

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

// Calls body(position, center, factor, shift, rate) for each element. The four numbers after the
// position are those of the element's channel.
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

COHORT_SIMD void TurnLoop(const TurnedMatrix& matrix) {
  // The matrix is transposed in square tiles of kTile rows, so small that a tile of `in` and a tile
  // of `out` fit in the first-level cache together.
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

COHORT_SIMD void MaxPoolPlane(const PlaneWindow& window, const float* in, float* out) {
  const int64_t width = window.columns.output;
  for (int64_t row = 0; row < window.rows.output; ++row) {
    float* const best = out + row * width;
    std::fill_n(best, width, -std::numeric_limits<float>::infinity());
    ForEachRowTap(window, row, [&](int64_t input_row, const TapRun& run) {
      const float* const from = in + input_row + run.input;
      float* const to = best + run.first;
      Strided(run.last - run.first, window.columns.stride,
              [=](int64_t o, int64_t i) { to[o] = Beats(from[i], to[o]) ? from[i] : to[o]; });
    });
  }
}

COHORT_SIMD void MaxPoolGradPlane(const PlaneWindow& window, const float* in, const float* dy,
                                  float* dx, const RowScratch& scratch) {
  const int64_t width = window.columns.output;
  const int64_t stride = window.columns.stride;
  for (int64_t row = 0; row < window.rows.output; ++row) {
    std::fill_n(scratch.best, width, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.at, width, -1);
    ForEachRowTap(window, row, [&](int64_t input_row, const TapRun& run) {
      const float* const from = in + input_row + run.input;
      const auto place = static_cast<int32_t>(input_row + run.input);
      float* const best = scratch.best + run.first;
      int32_t* const at = scratch.at + run.first;
      Strided(run.last - run.first, stride, [=](int64_t o, int64_t i) {
        const bool better = at[o] < 0 || Beats(from[i], best[o]);
        best[o] = better ? from[i] : best[o];
        at[o] = better ? place + static_cast<int32_t>(i) : at[o];
      });
    });
    // Each dy is added to dx at the largest element of its window.
    for (int64_t o = 0; o < width; ++o) {
      if (scratch.at[o] >= 0) dx[scratch.at[o]] += dy[row * width + o];
    }
  }
}

COHORT_SIMD void AveragePoolPlane(const PlaneWindow& window, const float* in, const float* rate,
                                  float* out) {
  const int64_t width = window.columns.output;
  for (int64_t row = 0; row < window.rows.output; ++row) {
    float* const sums = out + row * width;
    std::fill_n(sums, width, 0.0f);
    ForEachRowTap(window, row, [&](int64_t input_row, const TapRun& run) {
      const float* const from = in + input_row + run.input;
      float* const to = sums + run.first;
      Strided(run.last - run.first, window.columns.stride,
              [=](int64_t o, int64_t i) { to[o] += from[i]; });
    });
    const float* const rates = rate + row * width;
    for (int64_t o = 0; o < width; ++o) sums[o] *= rates[o];
  }
}

COHORT_SIMD void AveragePoolGradPlane(const PlaneWindow& window, const float* dy, const float* rate,
                                      float* dx) {
  const int64_t width = window.columns.output;
  for (int64_t row = 0; row < window.rows.output; ++row) {
    ForEachRowTap(window, row, [&](int64_t input_row, const TapRun& run) {
      float* const to = dx + input_row + run.input;
      const float* const grad = dy + row * width + run.first;
      const float* const rates = rate + row * width + run.first;
      Strided(run.last - run.first, window.columns.stride,
              [=](int64_t o, int64_t i) { to[i] += grad[o] * rates[o]; });
    });
  }
}

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
  // MapEach reads one rate for each channel. The body of MapChannels ignores the rate, so any array
  // with one float for each channel can be passed.
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

}  // namespace cohort
