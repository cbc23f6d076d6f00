#pragma once

#include <string>
#include <vector>

#include "common/program/value_types.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// What is wrong with the element types of a node's inputs by its schema, one sentence each.
// libonnx's own check stops at the first node of a graph; this is called for every node. The
// operator is known in `opset`.
std::vector<std::string> WrongInputTypes(const onnx::NodeProto& node, int opset,
                                         const ValueTypes& types);

}  // namespace cohort
