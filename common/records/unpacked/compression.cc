#include "common/records/unpacked/compression.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

absl::string_view CompressionName(FileCompression compression) {
  switch (compression) {
    case FileCompression::kAuto:
      return "auto";
    case FileCompression::kNone:
      return "none";
    case FileCompression::kGzip:
      return "gzip";
    case FileCompression::kZlib:
      return "zlib";
  }
  return "unknown";
}

absl::StatusOr<FileCompression> CompressionFromName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower.empty()) return FileCompression::kNone;
  for (const FileCompression one : {FileCompression::kAuto, FileCompression::kNone,
                                    FileCompression::kGzip, FileCompression::kZlib}) {
    if (lower == CompressionName(one)) return one;
  }
  const bool is_known = lower == "snappy" || lower == "zstd" || lower == "lz4" || lower == "bz2";
  return absl::InvalidArgumentError(absl::StrCat(
      "'", Excerpt(name), "' is not a compression that is read",
      is_known ? ": unpack the files, or pack them with gzip" : ": use auto, none, gzip or zlib"));
}

absl::StatusOr<FileCompression> DetectCompression(const ReadableFile& file) {
  std::array<char, 2> magic{};
  if (file.size() < magic.size()) return FileCompression::kNone;
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(magic)));
  const auto first = static_cast<unsigned char>(magic[0]);
  const auto second = static_cast<unsigned char>(magic[1]);
  if (first == 0x1f && second == 0x8b) return FileCompression::kGzip;
  // RFC 1950: the method is 8 with a window of 32 KiB, no dictionary is preset, and the two bytes
  // are a multiple of 31.
  const bool is_zlib = first == 0x78 && (second & 0x20) == 0 && (first * 256 + second) % 31 == 0;
  return is_zlib ? FileCompression::kZlib : FileCompression::kNone;
}

}  // namespace cohort
