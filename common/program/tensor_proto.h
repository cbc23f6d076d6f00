#pragma once

// Conversions between tensors and ONNX's TensorProto, the form in which a graph has its weights.

#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Checks a weight's element type, dimensions and amount of data, without copying the data. Errors:
// INVALID_ARGUMENT that names the weight, for an unsupported type, data outside the model file,
// negative or too large dimensions, or a wrong amount of data.
absl::Status CheckTensorProto(const onnx::TensorProto& proto);

// Returns the tensor as a proto with the name `name`, with its values as raw data.
onnx::TensorProto ToTensorProto(const std::string& name, const Tensor& tensor);
// Returns the tensor that is stored in `proto`. Errors: the errors of CheckTensorProto.
absl::StatusOr<Tensor> FromTensorProto(const onnx::TensorProto& proto);

}  // namespace cohort
