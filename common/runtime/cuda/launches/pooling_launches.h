#pragma once

// Launches of pooling, that is, functions that start its loops on a device. Windows slide over the
// planes of an image.

#include <cstdint>

namespace cohort {

struct CudaContext;

// One axis of a sliding window. The fields are those of WindowAxis (kernels/window_shape.h).
struct SlideAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};

inline constexpr int kSlideAxes = 3;

// The windows over planes of three axes. A plane with fewer axes has axes of extent 1 before its
// own axes.
struct Slide {
  SlideAxis axes[kSlideAxes];
  int64_t planes = 0;
  int64_t inputs = 1;
  int64_t outputs = 1;
};

struct MaxPoolLaunch {
  Slide slide;
  const float* x = nullptr;
  float* y = nullptr;  // null: the maxima are not wanted
  // The place of each window's largest element within its plane, or -1 for a window without
  // elements; null: not wanted.
  int64_t* at = nullptr;
};

struct MaxPoolIndicesLaunch {
  Slide slide;
  bool column_major = false;
  const int64_t* at = nullptr;
  int64_t* indices = nullptr;  // `indices` may be the same memory as `at`
};

struct MaxPoolGradLaunch {
  Slide slide;
  const float* dy = nullptr;
  const int64_t* at = nullptr;
  float* dx = nullptr;
};

struct AveragePoolLaunch {
  Slide slide;
  bool count_padding = false;
  const float* in = nullptr;  // x, or dy for the gradient
  float* out = nullptr;
};

struct GlobalAveragePoolLaunch {
  int64_t planes = 0;
  int64_t size = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

struct PoolingLaunches {
  int32_t (*max_pool)(CudaContext* context, const MaxPoolLaunch& launch);
  int32_t (*max_pool_indices)(CudaContext* context, const MaxPoolIndicesLaunch& launch);
  int32_t (*max_pool_grad)(CudaContext* context, const MaxPoolGradLaunch& launch);
  int32_t (*average_pool)(CudaContext* context, const AveragePoolLaunch& launch);
  int32_t (*average_pool_grad)(CudaContext* context, const AveragePoolLaunch& launch);
  int32_t (*global_average_pool)(CudaContext* context, const GlobalAveragePoolLaunch& launch);
};

// Returns the functions that start pooling on a device; pooling.cu defines them.
PoolingLaunches MakePoolingLaunches();

}  // namespace cohort
