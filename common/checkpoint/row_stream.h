#pragma once

// The bytes of some rows of a stored tensor, one after another, in pieces of any size: for code
// that sends them on and has no room for all of them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-compatible. Reads from files that its BundleReader keeps open.
class RowStream {
 public:
  // A stored slice, of which bytes [begin, end) are wanted.
  struct Part {
    const ReadableFile* file = nullptr;
    std::string path;
    int64_t offset = 0;  // offset in the file
    int64_t size = 0;
    uint32_t crc32c = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  RowStream(DType dtype, std::vector<Part> parts);
  // Streams a value that had to be read whole.
  explicit RowStream(Tensor value);

  uint64_t left() const { return left_; }

  // Reads the next out.size() bytes; there must be as many left. With the last wanted byte of a
  // stored slice the rest of the slice is read too and its checksum compared: the bytes can be
  // trusted once all have come. Errors: DATA_LOSS naming the file; the file system's. After an
  // error the stream must not be used any more.
  absl::Status Read(absl::Span<char> out);

 private:
  absl::Status ReadPart(const Part& part, absl::Span<char> out);
  // Reads up to `end` for the checksum alone.
  absl::Status SkipTo(const Part& part, int64_t end);

  const DType dtype_;
  const std::vector<Part> parts_;
  const Tensor value_;  // without parts
  uint64_t left_ = 0;
  size_t part_ = 0;       // the part that the next byte belongs to
  int64_t position_ = 0;  // position of the next byte in the part
  uint32_t crc_ = 0;      // CRC of the part up to there
};

}  // namespace cohort
