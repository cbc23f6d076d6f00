#pragma once

// A stream of the bytes of some rows of a stored tensor, in row order and in pieces of any size.
// Streams serve callers that forward the bytes and have no room for all of them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The stream over the slices that hold the rows. Reads from files that its BundleReader keeps open.
// Thread-compatible.
class RowStream {
 public:
  // A stored slice of which the stream delivers the bytes [begin, end).
  struct Part {
    const ReadableFile* file = nullptr;
    std::string path;
    int64_t offset = 0;  // offset of the slice in the file
    int64_t size = 0;
    uint32_t crc32c = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  RowStream(DType dtype, std::vector<Part> parts);
  // Makes a stream over a value in memory, for a tensor that had to be read whole.
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
  // Reads the part up to the byte `end`, only to include the bytes in the checksum.
  absl::Status SkipTo(const Part& part, int64_t end);

  const DType dtype_;
  const std::vector<Part> parts_;
  const Tensor value_;  // used only if there are no parts
  uint64_t left_ = 0;
  size_t part_ = 0;       // index of the part to which the next byte belongs
  int64_t position_ = 0;  // position of the next byte in the part
  uint32_t crc_ = 0;      // CRC of the part before `position_`
};

}  // namespace cohort
