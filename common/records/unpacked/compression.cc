#include "common/records/unpacked/compression.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

absl::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kAuto:
      return "auto";
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
  }
  return "unknown";
}

absl::StatusOr<Compression> CompressionFromName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower.empty()) return Compression::kNone;
  for (const Compression one :
       {Compression::kAuto, Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    if (lower == CompressionName(one)) return one;
  }
  const bool is_known = lower == "snappy" || lower == "zstd" || lower == "lz4" || lower == "bz2";
  return absl::InvalidArgumentError(absl::StrCat(
      "'", Excerpt(name), "' is not a compression that is read",
      is_known ? ": unpack the files, or pack them with gzip" : ": use auto, none, gzip or zlib"));
}

absl::StatusOr<Compression> DetectCompression(const ReadableFile& file) {
  std::array<char, 2> magic{};
  if (file.size() < magic.size()) return Compression::kNone;
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(magic)));
  const auto first = static_cast<unsigned char>(magic[0]);
  const auto second = static_cast<unsigned char>(magic[1]);
  if (first == 0x1f && second == 0x8b) return Compression::kGzip;
  // RFC 1950: the method is 8 with a window of 32 KiB, no dictionary is preset, and the two bytes
  // are a multiple of 31.
  const bool is_zlib = first == 0x78 && (second & 0x20) == 0 && (first * 256 + second) % 31 == 0;
  return is_zlib ? Compression::kZlib : Compression::kNone;
}

}  // namespace cohort
