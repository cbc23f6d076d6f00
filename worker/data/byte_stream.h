#pragma once

// Reads the bytes of a file from its start to its end, and unpacks a gzip file on the way. For
// decoders that read front to back and must know that no bytes are left over.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"

namespace cohort {

// The unpacked bytes of one file. Thread-compatible.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` with the next bytes of the stream. Errors: DATA_LOSS if the stream is damaged or
  // ends before `out` is full; those of the file.
  virtual absl::Status Read(absl::Span<char> out) = 0;
  // Checks that the stream ends here. Errors: DATA_LOSS if bytes are left in the stream or after it
  // in the file, or if gzip's checksum fails.
  virtual absl::Status ExpectEnd() = 0;
  // Returns an upper bound of the unpacked length, computed from the length of the file.
  virtual uint64_t max_bytes() const = 0;
};

// Opens `path` as a gzip stream if the file begins with the bytes 1f 8b, else as a plain stream.
// All errors name `path`: DATA_LOSS for a file of fewer than 2 bytes; those of FileSystem::Open.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(FileSystem& files,
                                                           const std::string& path);

}  // namespace cohort
