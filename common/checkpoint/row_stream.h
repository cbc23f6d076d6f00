#pragma once

// A stream of the bytes of some rows of a stored tensor, in row order. The caller chooses how many
// bytes each Read returns. Streams serve callers that forward the bytes and have no room for all of
// them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The stream over the stored slices that hold the wanted rows. Reads from files that the
// BundleReader keeps open. Thread-compatible.
class RowStream {
 public:
  // A stored slice of which the stream delivers the bytes [begin, end).
  struct Part {
    const ReadableFile* file = nullptr;
    std::string path;
    int64_t offset = 0;  // where the slice begins in its data shard
    int64_t size = 0;
    uint32_t crc32c = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  RowStream(DType dtype, std::vector<Part> parts);
  // Makes a stream over a tensor in memory, for rows that cannot be streamed from files
  // (StreamRows).
  explicit RowStream(Tensor value);

  uint64_t left() const { return left_; }

  // Reads the next out.size() bytes; at least that number of bytes must be left. When the last
  // wanted byte of a stored slice is read, the rest of the slice is read too and the slice's
  // checksum is compared. So the caller can trust the bytes only after all bytes have been read.
  // Errors: DATA_LOSS that names the file; the file system's errors. After an error the stream must
  // not be used any more.
  absl::Status Read(absl::Span<char> out);

 private:
  absl::Status ReadPart(const Part& part, absl::Span<char> out);
  // Reads the stored slice up to the byte `end` without delivering the bytes, which only enter the
  // checksum.
  absl::Status SkipTo(const Part& part, int64_t end);

  const DType dtype_;
  const std::vector<Part> parts_;
  const Tensor value_;  // the bytes of a stream without parts_
  uint64_t left_ = 0;
  size_t part_ = 0;       // index in parts_ of the slice to read next
  int64_t position_ = 0;  // number of bytes of parts_[part_] that were read
  uint32_t crc_ = 0;      // CRC of the bytes of parts_[part_] that were read
};

}  // namespace cohort
