#pragma once

// The arguments of launches (launches.h) on images. Pointers point to the device's memory, and to
// floats unless another type is named; sizes are in elements. This header is plain C++, because
// nvcc compiles it, too.

#include <cstdint>

#include "common/runtime/kernel/window_axis.h"

namespace cohort {

// The shape of a batch of images, seen as [outer, channels, inner].
struct ChannelView {
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

// Computes the mean and the variance of each channel over all elements of the channel. Statistics
// are double, like the sums from which they are computed.
struct BatchStatisticsLaunch {
  ChannelView view;
  const float* x = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// Converts statistics that are given for each channel to double.
struct GivenStatisticsLaunch {
  int64_t channels = 0;
  const float* mean = nullptr;
  const float* variance = nullptr;
  double* means = nullptr;
  double* variances = nullptr;
};

// Updates running statistics: out = before * kept + now * (1 - kept).
struct RunningLaunch {
  int64_t channels = 0;
  double kept = 0;
  const float* before = nullptr;
  const double* now = nullptr;
  float* out = nullptr;
};

// Normalizes: y = (x - mean) / sqrt(variance + epsilon) * scale + bias.
struct NormalizeLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  float* y = nullptr;  // y may be the same memory as x
};

// Computes two sums for each channel: `sums` of dy, and `products` of dy * (x - mean) /
// sqrt(variance + epsilon).
struct BatchNormSumsLaunch {
  ChannelView view;
  double epsilon = 0;
  const float* dy = nullptr;
  const float* x = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  double* sums = nullptr;
  double* products = nullptr;
  float* dbias = nullptr;   // receives `sums` as float; null: dbias is not wanted
  float* dscale = nullptr;  // receives `products` as float; null: dscale is not wanted
};

// Computes dx from the sums of BatchNormSumsLaunch.
struct BatchNormGradLaunch {
  ChannelView view;
  double epsilon = 0;
  bool training = false;  // whether the statistics are those of the batch
  const float* dy = nullptr;
  const float* x = nullptr;
  const float* scale = nullptr;
  const double* means = nullptr;
  const double* variances = nullptr;
  const double* sums = nullptr;
  const double* products = nullptr;
  float* dx = nullptr;  // dx may be the same memory as dy
};

// Small planes, each inside a large plane. A small plane begins at row `top` and column `left` of
// its large plane.
struct FramedPlanes {
  int64_t planes = 0;
  int64_t rows = 0;  // rows of the small plane
  int64_t columns = 0;
  int64_t top = 0;
  int64_t left = 0;
  int64_t large_rows = 0;
  int64_t large_columns = 0;
};

// Puts frames of zeros around small planes, or removes the frames.
struct PaddingLaunch {
  FramedPlanes shape;
  const float* in = nullptr;
  float* out = nullptr;
};

inline constexpr int kSlideAxes = 3;

// The sliding windows over planes of three axes. A plane with fewer axes gets leading axes of
// extent 1.
struct Slide {
  WindowAxis axes[kSlideAxes];
  int64_t planes = 0;
  int64_t inputs = 1;
  int64_t outputs = 1;
};

// Finds the largest element of each window.
struct MaxPoolLaunch {
  Slide slide;
  const float* x = nullptr;
  float* y = nullptr;  // receives the maxima; null: not wanted
  // The position of each window's largest element within its plane, or -1 for a window without
  // elements; null: the positions are not wanted.
  int64_t* at = nullptr;
};

// Computes the indices that ONNX's MaxPool returns. Input is the position of each window's largest
// element within its plane; an index counts through the whole tensor.
struct MaxPoolIndicesLaunch {
  Slide slide;
  bool column_major = false;
  const int64_t* at = nullptr;
  int64_t* indices = nullptr;  // `indices` may be the same memory as `at`
};

// Computes the gradient of max pooling: an element of dx is the sum of dy over all windows of which
// the element was the largest.
struct MaxPoolGradLaunch {
  Slide slide;
  const float* dy = nullptr;
  const int64_t* at = nullptr;
  float* dx = nullptr;
};

// Computes the mean of each window, or the gradient of average pooling.
struct AveragePoolLaunch {
  Slide slide;
  bool count_padding = false;
  const float* in = nullptr;  // x for the mean, or dy for the gradient
  float* out = nullptr;
};

// Computes the mean of each plane.
struct GlobalAveragePoolLaunch {
  int64_t planes = 0;
  int64_t size = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

// One axis of a convolution: a WindowAxis with equal padding at both ends. `output` may be less
// than the number of outputs for which the padded input has room.
struct ConvAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;  // number of padding positions at each end of the input
};

// Computes a convolution over two axes, or a gradient of one. The operands are x [batch, groups *
// inputs, rows, columns] and w [groups * outputs, inputs, ...]; none may be empty.
struct ConvLaunch {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t inputs = 0;   // channels of one group of x
  int64_t outputs = 0;  // channels of one group of y
  ConvAxis rows;
  ConvAxis columns;
  const float* first = nullptr;   // x, or dy if a gradient is computed
  const float* second = nullptr;  // w, or x if the gradient of w is computed
  const float* bias = nullptr;    // the bias, used by `forward` only; null: no bias
  float* result = nullptr;        // the result: y, dx or dw
};

}  // namespace cohort
