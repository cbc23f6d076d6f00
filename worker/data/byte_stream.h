#pragma once

// The bytes of a file from its start, unpacked where the file is gzip. Used by decoders that read
// front to back and must know that nothing is left over.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"

namespace cohort {

// Thread-compatible.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out`. Errors: DATA_LOSS when the stream is damaged or ends first.
  virtual absl::Status Read(absl::Span<char> out) = 0;
  // Errors: DATA_LOSS unless the stream ends here, its checksum holds and the file ends with it.
  virtual absl::Status ExpectEnd() = 0;
  // Returns an upper bound of the stream's length, which follows from the file's.
  virtual uint64_t max_bytes() const = 0;
};

// Opens a stream: gzip if it begins with the magic 1f 8b, else plain. The errors of the stream name
// `path`. Errors: DATA_LOSS for a file of fewer than 2 bytes; those of FileSystem::Open.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(FileSystem& files,
                                                           const std::string& path);

}  // namespace cohort
