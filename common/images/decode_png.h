#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/images/decode_image.h"

namespace cohort {

// Decodes a PNG image; see DecodeImage().
absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const DecodeOptions& options);

}  // namespace cohort
