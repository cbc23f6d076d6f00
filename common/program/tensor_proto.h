#pragma once

#include <string>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// A weight's element type, dims and amount of data, without copying them. Errors: INVALID_ARGUMENT
// naming the tensor: unsupported type, data outside the model file, negative or overflowing dims,
// wrong amount of data.
absl::Status CheckTensorProto(const onnx::TensorProto& proto);

}  // namespace cohort
