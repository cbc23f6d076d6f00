#include "common/images/decode_jpeg.h"

#include <jpeglib.h>  // after cstdio, which it needs

#include <csetjmp>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// libjpeg reports an error by a function that must not return, and so jumps.
struct ErrorManager {
  jpeg_error_mgr base;
  jmp_buf jump;
  std::string message;
};

void OnError(j_common_ptr info) {
  auto* const manager = reinterpret_cast<ErrorManager*>(info->err);
  char text[JMSG_LENGTH_MAX] = "";
  info->err->format_message(info, text);
  manager->message = text;
  std::longjmp(manager->jump, 1);
}

// libjpeg only warns of bytes that are missing, and makes pixels up.
void OnMessage(j_common_ptr info, int level) {
  if (level < 0) OnError(info);
}

// The parts of decoding between which a jump may end. They have no objects with destructors, which
// a jump would pass over.
struct Decoder {
  jpeg_decompress_struct info;
  ErrorManager errors;

  bool ReadHeader(absl::string_view bytes) {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool Begin(J_COLOR_SPACE space, bool accurate_dct) {
    if (setjmp(errors.jump) != 0) return false;
    info.out_color_space = space;
    info.dct_method = accurate_dct ? JDCT_ISLOW : JDCT_IFAST;
    info.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&info);
    return true;
  }

  bool ReadRows(unsigned char* out, size_t row_bytes) {
    if (setjmp(errors.jump) != 0) return false;
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = out + info.output_scanline * row_bytes;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
};

absl::StatusOr<Tensor> Decode(Decoder& decoder, absl::string_view bytes,
                              const DecodeOptions& options) {
  const auto damaged = [&decoder] {
    return absl::DataLossError(
        absl::StrCat("the JPEG image is damaged (", decoder.errors.message, ")"));
  };
  if (!decoder.ReadHeader(bytes)) return damaged();
  const jpeg_decompress_struct& info = decoder.info;
  if (info.num_components == 4) {
    return absl::UnimplementedError(
        "the JPEG image has the colors CMYK, which are not read: convert it to RGB");
  }
  const int channels = options.channels != 0 ? options.channels : info.num_components;
  if (channels != 1 && channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("a JPEG image has 1 or 3 channels, not ", channels));
  }
  const uint64_t row_bytes = uint64_t{info.image_width} * static_cast<uint64_t>(channels);
  if (row_bytes * info.image_height > kImageBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the JPEG image has ", info.image_width, " x ",
                                                     info.image_height,
                                                     " pixels, above the limit"));
  }
  if (!decoder.Begin(channels == 1 ? JCS_GRAYSCALE : JCS_RGB, options.accurate_dct)) {
    return damaged();
  }
  Tensor pixels(DType::kUint8, {info.output_height, info.output_width, channels});
  auto* const out = reinterpret_cast<unsigned char*>(pixels.mutable_raw());
  if (!decoder.ReadRows(out, row_bytes)) return damaged();
  return pixels;
}

}  // namespace

absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const DecodeOptions& options) {
  Decoder decoder{};
  decoder.info.err = jpeg_std_error(&decoder.errors.base);
  decoder.errors.base.error_exit = OnError;
  decoder.errors.base.emit_message = OnMessage;
  absl::StatusOr<Tensor> pixels = Decode(decoder, bytes, options);
  jpeg_destroy_decompress(&decoder.info);
  return pixels;
}

}  // namespace cohort
