#pragma once

// Decodes JPEG and PNG images to the pixels that TensorFlow's tf.io.decode_image gives, to the bit
// with Debian's libjpeg-turbo. EXIF rotations do not count, as there.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/images/decode_options.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The kind that the first bytes of an image show.
enum class ImageKind { kJpeg, kPng, kGif, kBmp, kUnknown };
ImageKind KindOfImage(absl::string_view bytes);

// Decodes an image to a tensor uint8[height, width, channels]; of 16 bits, the high ones count.
// Errors: DATA_LOSS for damaged or incomplete bytes; UNIMPLEMENTED naming a kind, such as GIF, or
// a color space, CMYK, that is not read; INVALID_ARGUMENT for channels that the kind does not
// have; RESOURCE_EXHAUSTED above kImageBytesMax.
absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const DecodeOptions& options);

}  // namespace cohort
