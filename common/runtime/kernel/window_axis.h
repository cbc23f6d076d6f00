#pragma once

// One axis of a window that slides over an image. This header is plain C++, because nvcc compiles
// it, too.

#include <cstdint>

namespace cohort {

// Tap k of the window at output position o falls on input position o * stride - pad_begin + k *
// dilation; a position that is negative or not below `input` is padding.
struct WindowAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;

  int64_t InputAt(int64_t output_at, int64_t tap) const {
    return output_at * stride - pad_begin + tap * dilation;
  }
};

}  // namespace cohort
