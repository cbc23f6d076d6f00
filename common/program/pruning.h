#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The part of `model` that makes `outputs`, which become its outputs in this order: a predict graph
// out of a train graph. Inputs, weights and nodes that they do not need are left out; the order of
// what stays is kept, and so are node names, to which random streams are tied. Errors:
// INVALID_ARGUMENT naming each output that the model does not have.
absl::StatusOr<onnx::ModelProto> ExtractSubgraph(const onnx::ModelProto& model,
                                                 absl::Span<const std::string> outputs);

}  // namespace cohort
