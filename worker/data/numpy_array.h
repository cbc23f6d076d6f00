#pragma once

// Arrays of NumPy as components of a data set.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "worker/data/row_file.h"

namespace cohort {

// An array in memory or, if it is above kArrayInMemoryMax and its file allows it, in the file.
struct NumpyArray {
  std::optional<Tensor> values;
  std::shared_ptr<const RowFile> rows;
};

// Opens the array of a .npy file, or array `key` of a .npz file. Errors: DATA_LOSS for a damaged
// file; UNIMPLEMENTED for a type that is not read; INVALID_ARGUMENT for an array without axes, for
// a .npz file without a key and a key that the file does not have, naming those that it has; those
// of the file.
absl::StatusOr<NumpyArray> OpenNumpyArray(FileSystem& files, const std::string& path,
                                          const std::string& key);

}  // namespace cohort
