#pragma once

// Writes an exported model to a file, variable by variable, so that only one value at a time is in
// memory. An ONNX file is one protobuf message of less than 2 GiB. A larger model keeps its
// variables in a second file beside the first, `path.data`, as ONNX's external data.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/model/onnx_export.h"

namespace cohort {

inline constexpr size_t kOnnxFileBytesMax = (size_t{1} << 31) - 1;

// Returns the whole value of a variable; called once for each variable, in the model's order.
using ReadVariable = absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& variable)>;

// Writes the model. An existing model at `path` is replaced only when everything is written, and is
// removed before its data file is replaced, so that a model never refers to the data of another
// model. Temporary files that an earlier process left are removed. `file_bytes_max` is
// kOnnxFileBytesMax, or less in tests. Errors: those of `read` and of the file system;
// INVALID_ARGUMENT for a value of another type or shape, naming the variable.
absl::Status WriteOnnx(FileSystem& files, const std::string& path, const OnnxExport& exported,
                       ReadVariable read, size_t file_bytes_max);

}  // namespace cohort
