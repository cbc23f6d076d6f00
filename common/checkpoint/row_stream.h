#pragma once

// A stream of the bytes of some rows of a stored tensor, in the order of the rows. The caller
// chooses how many bytes each Read returns. Streams are for callers that forward the bytes and have
// no room for all of them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The stream of the wanted rows of one tensor, over the stored slices that hold these rows. Reads
// from files that the BundleReader keeps open. Thread-compatible.
class RowStream {
 public:
  // One stored slice, of which the stream delivers the bytes [begin, end).
  struct Part {
    const ReadableFile* file = nullptr;
    std::string path;
    int64_t offset = 0;  // position of the slice's first byte in its data shard
    int64_t size = 0;
    uint32_t crc32c = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  RowStream(DType dtype, std::vector<Part> parts);
  // Makes a stream of a tensor in memory, for rows that StreamRows cannot stream from files.
  explicit RowStream(Tensor value);

  uint64_t left() const { return left_; }

  // Reads the next out.size() bytes, of which at least so many must be left. When the last wanted
  // byte of a stored slice is read, the rest of the slice is read as well and the slice's checksum
  // is compared. So the caller can trust the bytes only after all bytes of the stream have been
  // read. Errors: DATA_LOSS that names the file; those of the file system. After an error the
  // stream must not be used any more.
  absl::Status Read(absl::Span<char> out);

 private:
  absl::Status ReadPart(const Part& part, absl::Span<char> out);
  // Reads the stored slice up to the byte `end` without delivering the bytes, which are needed only
  // for the slice's checksum.
  absl::Status SkipTo(const Part& part, int64_t end);

  const DType dtype_;
  const std::vector<Part> parts_;
  const Tensor value_;  // the tensor of a stream that is not read from files, else empty
  uint64_t left_ = 0;
  size_t part_ = 0;       // index in parts_ of the slice to be read next
  int64_t position_ = 0;  // number of bytes of the slice parts_[part_] that were read
  uint32_t crc_ = 0;      // CRC-32C of the bytes of the slice parts_[part_] that were read
};

}  // namespace cohort
