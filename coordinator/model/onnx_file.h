#pragma once

// An exported model on its way to a file, variable after variable, so that one value at a time is
// in memory. A file of ONNX is one protobuf message, of at most 2 GiB less a byte; a larger model
// keeps its variables in a second file beside it, `path.data`, as ONNX's external data.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/model/onnx_export.h"

namespace cohort {

inline constexpr size_t kOnnxFileBytesMax = (size_t{1} << 31) - 1;

// The whole value of a variable, asked for once, in the model's order.
using ReadVariable = absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& variable)>;

// Writes the model. What was at `path` before is replaced when all is written; the data file comes
// first, so that there is never a model with another one's data. `file_bytes_max` is
// kOnnxFileBytesMax, or less. Errors: those of `read` and of files; INVALID_ARGUMENT for a value of
// another type or shape, naming the variable.
absl::Status WriteOnnx(FileSystem& files, const std::string& path, const OnnxExport& exported,
                       ReadVariable read, size_t file_bytes_max);

}  // namespace cohort
