#pragma once

// The trained model as one ordinary ONNX file: the predict program with each variable's value
// inside as an initializer.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// `values` holds the whole value of every variable that the program reads (slices joined). The
// result has standard operators only, a symbolic batch, and is checked by libonnx. Errors:
// INVALID_ARGUMENT for a value that is missing or of another type or shape, for an input that is
// neither batch nor variable, and for an operator outside ONNX's own domain, naming it.
absl::StatusOr<onnx::ModelProto> ExportOnnx(const proto::Program& predict,
                                            const std::map<std::string, Tensor>& values);

}  // namespace cohort
