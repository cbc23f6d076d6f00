#pragma once

// A builder for ONNX graphs that adds node after node. Values are referred to by their names, and
// every node gets a name. Errors are reported when the model is finished (Finish), not by each
// call.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/program/product_precision.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

onnx::AttributeProto IntAttribute(const std::string& name, int64_t value);
onnx::AttributeProto IntsAttribute(const std::string& name, absl::Span<const int64_t> values);
onnx::AttributeProto FloatAttribute(const std::string& name, float value);
onnx::AttributeProto StringAttribute(const std::string& name, const std::string& value);

// The builder of one graph. A dimension of a graph input is a number, or -1 for the symbolic batch
// size "N". Thread-compatible.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& graph_name);
  // Continues an existing graph. New values get names that the graph does not use.
  explicit GraphBuilder(onnx::ModelProto model);

  std::string Input(const std::string& name, DType dtype, absl::Span<const int64_t> dims);
  // Adds a graph input. A dimension of -1 gets the symbol `symbol` instead of "N", for a size that
  // is not the batch size.
  std::string Input(const std::string& name, DType dtype, absl::Span<const int64_t> dims,
                    const std::string& symbol);
  // Adds the weight `value` to the model and returns the weight's name: `name`, or `name` with a
  // number appended if `name` is taken.
  std::string Constant(const std::string& name, const Tensor& value);
  // Adds a node with one output and returns the name of the output value. The `domain` "" is ONNX's
  // own. An input "" is an optional input that is absent. The node's name is the prefix followed by
  // the operator, such as "dense_1/MatMul"; if that name is taken, a number is appended
  // ("dense_1/MatMul_1").
  std::string Op(const std::string& op, absl::Span<const std::string> inputs,
                 std::vector<onnx::AttributeProto> attributes = {}, const std::string& domain = "");
  std::vector<std::string> OpN(const std::string& op, absl::Span<const std::string> inputs,
                               int num_outputs, std::vector<onnx::AttributeProto> attributes = {},
                               const std::string& domain = "");
  // Adds a node that lacks the outputs that are not wanted, and returns a name, or "", for each.
  std::vector<std::string> OpSome(const std::string& op, absl::Span<const std::string> inputs,
                                  const std::vector<bool>& wanted,
                                  std::vector<onnx::AttributeProto> attributes,
                                  const std::string& domain);
  // Makes a value a graph output under the value's own name.
  void Output(const std::string& value);
  // Sets a prefix, such as "dense_1/", for the names of the nodes that are added from now on.
  void SetNamePrefix(const std::string& prefix);
  // Sets the precision of the products in the nodes that are added from now on, and returns the
  // precision until now.
  ProductPrecision SetProductPrecision(ProductPrecision precision) {
    return std::exchange(precision_, precision);
  }

  // Returns the finished model after checking it and inferring shapes. Errors: INVALID_ARGUMENT
  // that lists every wrong node.
  absl::StatusOr<onnx::ModelProto> Finish();

 private:
  std::string FreshName(const std::string& stem);

  onnx::ModelProto model_;
  std::string prefix_;
  ProductPrecision precision_ = ProductPrecision::kFloat32;
  std::set<std::string> used_;           // names that values and nodes of the graph already have
  std::map<std::string, int64_t> next_;  // the last number appended to each stem of a name
};

// Sets a precision of products for the nodes that are added during its life. Thread-compatible.
class ProductPrecisionScope {
 public:
  ProductPrecisionScope(GraphBuilder& graph, ProductPrecision precision)
      : graph_(graph), outer_(graph.SetProductPrecision(precision)) {}
  ~ProductPrecisionScope() { graph_.SetProductPrecision(outer_); }
  ProductPrecisionScope(const ProductPrecisionScope&) = delete;
  ProductPrecisionScope& operator=(const ProductPrecisionScope&) = delete;

 private:
  GraphBuilder& graph_;
  const ProductPrecision outer_;
};

}  // namespace cohort
