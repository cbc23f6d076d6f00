#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/images/decode_image.h"

namespace cohort {

// Decodes a JPEG image; see DecodeImage().
absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const DecodeOptions& options);

}  // namespace cohort
