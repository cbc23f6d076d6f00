#pragma once

// The ways in which files of data are compressed, by TensorFlow's names: "" (here "none"), "GZIP"
// and "ZLIB". TensorFlow never looks at the content; here the content decides, and a setting that
// contradicts it is an error.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

enum class FileCompression {
  kAuto,  // what the first bytes of the file say
  kNone,
  kGzip,  // RFC 1952: one member, or several after each other
  kZlib,  // RFC 1950: one stream, or several after each other
};

// Returns "auto", "none", "gzip" or "zlib".
absl::string_view CompressionName(FileCompression compression);
// Returns the compression with this name, in upper or lower case; "" is none. Errors:
// INVALID_ARGUMENT for another name, with the way out for snappy and zstd.
absl::StatusOr<FileCompression> CompressionFromName(absl::string_view name);

// Returns the compression that the first bytes of a file show; kNone for all other bytes. Plain
// data may begin with the same two bytes, so a format that can tell asks its own header first.
absl::StatusOr<FileCompression> DetectCompression(const ReadableFile& file);

}  // namespace cohort
