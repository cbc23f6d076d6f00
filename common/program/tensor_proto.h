#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Checks a weight's element type, dims and amount of data, without copying them. Errors:
// INVALID_ARGUMENT naming the tensor: unsupported type, data outside the model file, negative or
// overflowing dims, wrong amount of data.
absl::Status CheckTensorProto(const onnx::TensorProto& proto);

// Stores the tensor's values as raw data, under `name`.
onnx::TensorProto ToTensorProto(const std::string& name, const Tensor& tensor);
// Errors: those of CheckTensorProto.
absl::StatusOr<Tensor> FromTensorProto(const onnx::TensorProto& proto);

}  // namespace cohort
