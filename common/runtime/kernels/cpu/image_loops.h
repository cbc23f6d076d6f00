#pragma once

// Loops over the planes of images, in float32. One call takes one plane or a few planes. They are
// compiled for several instruction sets (common/runtime/kernel/simd.h). Pointers do not overlap
// unless a comment says so.

#include <cstdint>

#include "common/runtime/kernels/batch_norm_shape.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

// A matrix transposition, out[r][c] = in[c][r]. Rows and columns are those of `out`; a stride is
// the distance between two rows.
struct TurnedMatrix {
  const float* in;
  int64_t in_stride;
  float* out;
  int64_t out_stride;
  int64_t rows;
  int64_t columns;
};
void TurnLoop(const TurnedMatrix& matrix);

// The sliding window over a plane of two axes. Positions within a plane are numbered in row-major
// order, as in Window (window_shape.h).
struct PlaneWindow {
  WindowAxis rows;
  WindowAxis columns;
};
// Writes the largest element of each window: NaN if the window has a NaN, and -infinity if the
// window has no elements.
void MaxPoolPlane(const PlaneWindow& window, const float* in, float* out);
// Scratch memory of MaxPoolGradPlane for one row of dy. MaxPoolGradPlane adds each dy to dx at the
// largest element of the window of dy (cohort.MaxPoolGrad).
struct RowScratch {
  float* best;
  int32_t* at;
};
void MaxPoolGradPlane(const PlaneWindow& window, const float* in, const float* dy, float* dx,
                      const RowScratch& scratch);
// Writes for each window the sum of its elements times the window's number in `rate`.
void AveragePoolPlane(const PlaneWindow& window, const float* in, const float* rate, float* out);
// Adds to dx, at all elements of each window, the window's dy times the window's number in `rate`.
void AveragePoolGradPlane(const PlaneWindow& window, const float* dy, const float* rate, float* dx);

// Writes the sum of each channel of x, whose shape is [outer, channels, inner]. Contiguous elements
// are added in float32 in 16 partial sums; all other additions are in double.
void SumChannels(const BatchNormShape& shape, const float* x, double* sums);
// Writes the sum of (x - center)^2 over each channel.
void SumChannelSquares(const BatchNormShape& shape, const float* x, const float* centers,
                       double* sums);
// Results of SumChannelGradients: for each channel, the sum of dy and the sum of dy * (x - center).
struct GradientSums {
  double* sums;
  double* products;
};
void SumChannelGradients(const BatchNormShape& shape, const float* dy, const float* x,
                         const float* centers, const GradientSums& out);

// The arrays of three numbers for each channel with which MapChannels computes y = (x - center) *
// factor + shift. y may be the same memory as x.
struct ChannelMap {
  const float* centers;
  const float* factors;
  const float* shifts;
};
void MapChannels(const BatchNormShape& shape, const ChannelMap& map, const float* x, float* y);
// Computes dx = dy * rate + (x - center) * factor + shift with each channel's own rate, center,
// factor and shift. dx may be the same memory as dy.
void MapChannelGradients(const BatchNormShape& shape, const ChannelMap& map, const float* rates,
                         const float* dy, const float* x, float* dx);

}  // namespace cohort
