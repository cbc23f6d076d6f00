#pragma once

// The rows of an array in a file, read by number: of an array that is too large to be read into
// memory as a whole. Axis 0 of the array counts the rows.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/formats/stored_elements.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Arrays above this are not read into memory, where their file allows it.
inline constexpr uint64_t kArrayInMemoryMax = uint64_t{64} << 20;

// The place of an array in a file.
struct StoredArray {
  StoredType type;
  Shape shape;         // has an axis 0
  uint64_t begin = 0;  // offset of the first element
};

// Immutable; thread-safe.
class RowFile {
 public:
  // `path` is for messages. Errors: DATA_LOSS if the file ends before the array; UNIMPLEMENTED for
  // a type that tensors do not have.
  static absl::StatusOr<std::shared_ptr<const RowFile>> Make(std::unique_ptr<ReadableFile> file,
                                                             std::string path, StoredArray array);

  int64_t rows() const { return array_.shape.dim(0); }
  DType dtype() const { return DTypeOfStored(array_.type); }
  // Returns the shape of one row.
  Shape row_shape() const;

  // Reads rows, in this order, into a tensor whose axis 0 counts them. Errors: those of the file;
  // INVALID_ARGUMENT for a value that the tensor's type cannot hold, naming the file.
  absl::StatusOr<Tensor> Read(absl::Span<const int64_t> rows) const;

 private:
  RowFile(std::unique_ptr<ReadableFile> file, std::string path, StoredArray array,
          uint64_t row_bytes);

  const std::unique_ptr<ReadableFile> file_;
  const std::string path_;
  const StoredArray array_;
  const uint64_t row_bytes_;
};

}  // namespace cohort
