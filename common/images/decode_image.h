#pragma once

// Decodes JPEG and PNG images to the pixels that TensorFlow's tf.io.decode_image gives, to the bit
// with Debian's libjpeg-turbo. EXIF rotations do not count, as there.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct DecodeOptions {
  // The channels of the result: 0 those of the file, 1 gray, 3 colours (red, green, blue), 4 with
  // alpha (of PNG only).
  int channels = 0;
  // Of JPEG: TensorFlow's dct_method INTEGER_ACCURATE, which PIL and OpenCV take, in the place of
  // its default, INTEGER_FAST.
  bool accurate_dct = false;
};

// Upper bound on the bytes of the pixels of one image.
inline constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;

// The kind that the first bytes of an image show.
enum class ImageKind { kJpeg, kPng, kGif, kBmp, kUnknown };
ImageKind KindOfImage(absl::string_view bytes);

// Decodes an image to a tensor uint8[height, width, channels]; of 16 bits, the high ones count.
// Errors: DATA_LOSS for damaged or incomplete bytes; UNIMPLEMENTED naming a kind, such as GIF, or
// a color space, CMYK, that is not read; INVALID_ARGUMENT for channels that the kind does not
// have; RESOURCE_EXHAUSTED above kImageBytesMax.
absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const DecodeOptions& options);

}  // namespace cohort
