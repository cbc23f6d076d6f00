#include "common/images/decode_png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// The bytes of a file from which libpng reads, and the error that it has reported.
struct Reading {
  absl::string_view rest;
  std::string message;
};

void OnError(png_structp png, png_const_charp message) {
  static_cast<Reading*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

void OnWarning(png_structp png, png_const_charp message) {}

void ReadBytes(png_structp png, png_bytep out, size_t size) {
  auto* const reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (size > reading->rest.size()) png_error(png, "the file is cut off");
  std::memcpy(out, reading->rest.data(), size);
  reading->rest.remove_prefix(size);
}

// The parts of decoding between which a jump may end. They have no objects with destructors, which
// a jump would pass over.
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  int channels = 0;

  bool ReadHeader(Reading* reading) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, reading, ReadBytes);
    // Chunks whose checksum does not fit are errors, also those that a reader may pass over.
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png, 1 << 20, 1 << 20);
    png_read_info(png, info);
    return true;
  }

  // Asks for 8 bits a sample, and for `wanted` channels or those of the file. Channels that are
  // added or dropped here are alpha and the three colors of gray ones.
  bool Begin(int wanted) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_expand(png);    // palettes to colors, few bits to 8, transparent colors to alpha
    png_set_strip_16(png);  // the high 8 bits
    if (wanted == 3 || wanted == 4) png_set_gray_to_rgb(png);
    if (wanted == 1 || wanted == 3) png_set_strip_alpha(png);
    if (wanted == 4) png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    channels = png_get_channels(png, info);
    return true;
  }

  bool ReadRows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }
};

// Replaces colors by their gray values, by TensorFlow's formula, which rounds down.
Tensor ToGray(const Tensor& colors) {
  const Shape& shape = colors.shape();
  Tensor gray(DType::kUint8, {shape.dim(0), shape.dim(1), 1});
  const absl::Span<const uint8_t> in = colors.span<uint8_t>();
  auto* const out = reinterpret_cast<uint8_t*>(gray.mutable_raw());
  for (int64_t i = 0; i < gray.num_elements(); ++i) {
    const auto at = static_cast<size_t>(3 * i);
    out[i] = static_cast<uint8_t>(0.299f * in[at] + 0.587f * in[at + 1] + 0.114f * in[at + 2]);
  }
  return gray;
}

absl::StatusOr<Tensor> Decode(Decoder& decoder, Reading& reading, int wanted) {
  const auto damaged = [&reading] {
    return absl::DataLossError(absl::StrCat("the PNG image is damaged (", reading.message, ")"));
  };
  if (!decoder.ReadHeader(&reading)) return damaged();
  const uint64_t width = png_get_image_width(decoder.png, decoder.info);
  const uint64_t height = png_get_image_height(decoder.png, decoder.info);
  if (width * height > kImageBytesMax / 4) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the PNG image has ", width, " x ", height, " pixels, above the limit"));
  }
  if (!decoder.Begin(wanted)) return damaged();
  Tensor pixels(DType::kUint8,
                {static_cast<int64_t>(height), static_cast<int64_t>(width), decoder.channels});
  auto* const out = reinterpret_cast<png_bytep>(pixels.mutable_raw());
  std::vector<png_bytep> rows(height);
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row] = out + row * width * static_cast<size_t>(decoder.channels);
  }
  if (!decoder.ReadRows(rows.data())) return damaged();
  if (wanted == 1 && decoder.channels == 3) return ToGray(pixels);
  return pixels;
}

}  // namespace

absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const DecodeOptions& options) {
  if (options.channels < 0 || options.channels > 4 || options.channels == 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a PNG image has 1, 3 or 4 channels, not ", options.channels));
  }
  Reading reading{bytes, ""};
  Decoder decoder;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, OnError, OnWarning);
  decoder.info = decoder.png == nullptr ? nullptr : png_create_info_struct(decoder.png);
  absl::StatusOr<Tensor> pixels = absl::ResourceExhaustedError("no memory to decode a PNG image");
  if (decoder.info != nullptr) pixels = Decode(decoder, reading, options.channels);
  png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
  return pixels;
}

}  // namespace cohort
