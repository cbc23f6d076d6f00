#pragma once

// The precision of the products in a node: of matrices, of convolutions and of recurrent layers.
// ONNX's operators have no such attribute, so the mark is the node's doc_string, which no operator
// reads. A kernel that has no products ignores the mark, and a kernel whose processor lacks the
// precision computes in float32.

#include "onnx/onnx_pb.h"

namespace cohort {

enum class ProductPrecision {
  kFloat32,
  // Factors are rounded to bfloat16, and their products are summed in float32.
  kBfloat16,
};

void SetProductPrecision(ProductPrecision precision, onnx::NodeProto& node);
ProductPrecision ProductPrecisionOf(const onnx::NodeProto& node);

// Returns the number of nodes of the graph with products in bfloat16.
int CountBfloat16Products(const onnx::GraphProto& graph);

}  // namespace cohort
