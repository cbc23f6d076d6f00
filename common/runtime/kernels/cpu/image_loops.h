#pragma once

// Loops over the planes of images: float32, one plane or a few, compiled for several instruction
// sets (kernels/simd.h). Pointers do not overlap unless it is said.

#include <cstdint>

#include "common/runtime/kernels/batch_norm_shape.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

// out[r][c] = in[c][r]; rows and columns of `out`. A stride is the distance of rows.
struct TurnedMatrix {
  const float* in;
  int64_t in_stride;
  float* out;
  int64_t out_stride;
  int64_t rows;
  int64_t columns;
};
void TurnLoop(const TurnedMatrix& matrix);

// The window of one plane, with two axes whose positions are those of Window.
struct PlaneWindow {
  WindowAxis rows;
  WindowAxis columns;
};
// Writes the largest element of each window, NaN if the window has one; -infinity for a window
// without elements.
void MaxPoolPlane(const PlaneWindow& window, const float* in, float* out);
// Adds each dy to dx at the largest of its window (cohort.MaxPoolGrad). `best` and `at` have room
// for one row of dy.
struct RowScratch {
  float* best;
  int32_t* at;
};
void MaxPoolGradPlane(const PlaneWindow& window, const float* in, const float* dy, float* dx,
                      const RowScratch& scratch);
// Sums of each window, times `rate` of the output.
void AveragePoolPlane(const PlaneWindow& window, const float* in, const float* rate, float* out);
// Adds dy times its rate to dx all over its window.
void AveragePoolGradPlane(const PlaneWindow& window, const float* dy, const float* rate, float* dx);

// Adds up each channel of [outer, channels, inner]; the sums of lines are added up in double.
void SumChannels(const BatchNormShape& shape, const float* x, double* sums);
// Adds up (x - center)^2.
void SumChannelSquares(const BatchNormShape& shape, const float* x, const float* centers,
                       double* sums);
// The sums of dy and of dy * (x - center).
struct GradientSums {
  double* sums;
  double* products;
};
void SumChannelGradients(const BatchNormShape& shape, const float* dy, const float* x,
                         const float* centers, const GradientSums& out);

// Per channel: y = (x - center) * factor + shift. y may be x.
struct ChannelMap {
  const float* centers;
  const float* factors;
  const float* shifts;
};
void MapChannels(const BatchNormShape& shape, const ChannelMap& map, const float* x, float* y);
// Computes, per channel, dx = dy * rate + (x - center) * factor + shift. dx may be dy.
void MapChannelGradients(const BatchNormShape& shape, const ChannelMap& map, const float* rates,
                         const float* dy, const float* x, float* dx);

}  // namespace cohort
