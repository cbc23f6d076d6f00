#include "tests/bench/program_flops.h"

#include <numeric>
#include <string>
#include <vector>

#include "common/program/value_types.h"

namespace cohort::bench {

namespace {

using Dims = std::vector<double>;

// The shapes of a graph's values, in which every dimension that is no number is the batch.
// Thread-compatible.
class Shapes {
 public:
  Shapes(const onnx::GraphProto& graph, int batch) : types_(graph), batch_(batch) {}

  Dims operator()(const std::string& value) const {
    Dims dims;
    const auto* shape = types_.shape(value);
    if (shape == nullptr) return dims;
    for (const auto& dim : shape->dim()) {
      dims.push_back(dim.has_dim_value() ? static_cast<double>(dim.dim_value()) : batch_);
    }
    return dims;
  }

 private:
  const ValueTypes types_;
  const double batch_;
};

double Product(const Dims& dims, size_t first) {
  if (dims.size() <= first) return 1;
  return std::accumulate(dims.begin() + static_cast<int64_t>(first), dims.end(), 1.0,
                         std::multiplies<double>());
}

bool HasFlag(const onnx::NodeProto& node, const char* name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i() != 0;
  }
  return false;
}

// Counts a convolution by its outputs, each of which is a product with the weights [1..] of one
// filter.
double ConvFlops(const Dims& outputs, const Dims& weights) {
  return 2 * Product(outputs, 0) * Product(weights, 1);
}

double MatMulFlops(const onnx::NodeProto& node, const Shapes& shapes) {
  const Dims a = shapes(node.input(0));
  if (a.empty()) return 0;
  return 2 * Product(shapes(node.output(0)), 0) * (HasFlag(node, "transA") ? a.front() : a.back());
}

// Counts the input products and the products of each step of a recurrent layer over x, whose first
// two dimensions are steps and examples.
double RecurrentFlops(const onnx::NodeProto& node, const Shapes& shapes) {
  const Dims x = shapes(node.input(0));
  if (x.size() < 3) return 0;
  return 2 * x[0] * x[1] * (Product(shapes(node.input(1)), 0) + Product(shapes(node.input(2)), 0));
}

double FlopsOf(const onnx::NodeProto& node, const Shapes& shapes) {
  const std::string& op = node.op_type();
  if (op == "Conv") return ConvFlops(shapes(node.output(0)), shapes(node.input(1)));
  if (op == "ConvInputGrad") return ConvFlops(shapes(node.input(0)), shapes(node.input(1)));
  if (op == "ConvWeightGrad") return ConvFlops(shapes(node.input(0)), shapes(node.input(2)));
  if (op == "MatMul" || op == "Gemm") return MatMulFlops(node, shapes);
  if (op == "Recurrent" || op == "LSTM") return RecurrentFlops(node, shapes);
  // The gradient of each product is two products of its size.
  if (op == "RecurrentGrad") return 2 * RecurrentFlops(node, shapes);
  return 0;
}

}  // namespace

double FlopsOf(const onnx::GraphProto& graph, int batch) {
  const Shapes shapes(graph, batch);
  double flops = 0;
  for (const onnx::NodeProto& node : graph.node()) flops += FlopsOf(node, shapes);
  return flops;
}

}  // namespace cohort::bench
