#include "common/program/product_precision.h"

#include <algorithm>

namespace cohort {
namespace {

constexpr char kBfloat16Mark[] = "products in bfloat16";

// The operators that have products of matrices or convolutions.
constexpr const char* kProducts[] = {"MatMul",
                                     "Gemm",
                                     "Einsum",
                                     "EinsumGrad",
                                     "Conv",
                                     "ConvInputGrad",
                                     "ConvWeightGrad",
                                     "ConvTranspose",
                                     "ConvTransposeInputGrad",
                                     "ConvTransposeWeightGrad",
                                     "Recurrent",
                                     "RecurrentGrad",
                                     "LSTM",
                                     "GRU",
                                     "RNN"};

}  // namespace

void SetProductPrecision(ProductPrecision precision, onnx::NodeProto& node) {
  if (precision == ProductPrecision::kBfloat16) {
    node.set_doc_string(kBfloat16Mark);
  } else {
    node.clear_doc_string();
  }
}

ProductPrecision ProductPrecisionOf(const onnx::NodeProto& node) {
  return node.doc_string() == kBfloat16Mark ? ProductPrecision::kBfloat16
                                            : ProductPrecision::kFloat32;
}

int CountBfloat16Products(const onnx::GraphProto& graph) {
  return static_cast<int>(
      std::count_if(graph.node().begin(), graph.node().end(), [](const onnx::NodeProto& node) {
        const auto* const end = std::end(kProducts);
        return ProductPrecisionOf(node) == ProductPrecision::kBfloat16 &&
               std::find(std::begin(kProducts), end, node.op_type()) != end;
      }));
}

}  // namespace cohort
