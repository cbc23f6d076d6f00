#include "common/images/decode_image.h"

#include "absl/strings/match.h"
#include "common/images/decode_jpeg.h"
#include "common/images/decode_png.h"

namespace cohort {

ImageKind KindOfImage(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return ImageKind::kJpeg;
  if (absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return ImageKind::kPng;
  if (absl::StartsWith(bytes, "GIF8")) return ImageKind::kGif;
  if (absl::StartsWith(bytes, "BM")) return ImageKind::kBmp;
  return ImageKind::kUnknown;
}

absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const DecodeOptions& options) {
  switch (KindOfImage(bytes)) {
    case ImageKind::kJpeg:
      return DecodeJpeg(bytes, options);
    case ImageKind::kPng:
      return DecodePng(bytes, options);
    case ImageKind::kGif:
      return absl::UnimplementedError("the image is a GIF, which is not read: convert it to PNG");
    case ImageKind::kBmp:
      return absl::UnimplementedError("the image is a BMP, which is not read: convert it to PNG");
    case ImageKind::kUnknown:
      break;
  }
  return absl::DataLossError("the bytes are no image: neither JPEG nor PNG begins so");
}

}  // namespace cohort
