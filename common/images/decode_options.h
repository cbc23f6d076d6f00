#pragma once

// Options of decoding an image, and the bound on its size.

#include <cstdint>

namespace cohort {

struct DecodeOptions {
  // The channels of the result: 0 those of the file, 1 gray, 3 colours (red, green, blue), 4 with
  // alpha (of PNG only).
  int channels = 0;
  // True: JPEG is decoded by TensorFlow's dct_method INTEGER_ACCURATE, which PIL and OpenCV take;
  // false: by TensorFlow's default, INTEGER_FAST.
  bool accurate_dct = false;
};

// Upper bound on the bytes of the pixels of one image.
inline constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;

}  // namespace cohort
