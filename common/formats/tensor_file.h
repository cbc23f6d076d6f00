#pragma once

// Files of named tensors, as training programs exchange them. Opening such a file reads and checks
// its table of contents; the values of a tensor are read when a caller asks for them.
//
// Every file is hostile: no size, count or offset in it is used before it was checked against the
// file's real size, and no content of a file ends the process.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

// One entry of the table of contents.
struct FileTensor {
  std::string name;
  // Type of the tensor that Read returns; kUndefined: not supported.
  DType dtype = DType::kUndefined;
  Shape shape;
  std::string stored_type;  // name of the type in the file's format, for messages
};

// A file of named tensors that is open for reading. Thread-safe.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  // Returns the tensors in the order of the file.
  virtual const std::vector<FileTensor>& tensors() const = 0;
  // Reads the values of tensors()[index]. Errors: DATA_LOSS for damaged values; UNIMPLEMENTED for
  // an element type that Cohort does not support; the file's errors. All name file and tensor.
  virtual absl::StatusOr<Tensor> Read(size_t index) const = 0;
};

// A tensor to write under a name.
struct NamedTensor {
  std::string name;
  Tensor value;
};

}  // namespace cohort
