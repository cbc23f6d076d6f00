#pragma once

// The reader of one kind of images; decode_image.h chooses among them.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/images/decode_options.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Decodes a PNG image; see DecodeImage().
absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const DecodeOptions& options);

}  // namespace cohort
