#pragma once

// Builds an ONNX graph node by node. Values are names; every node gets a name. Errors are found
// when the model is finished (Finish), not per call.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

onnx::AttributeProto IntAttribute(const std::string& name, int64_t value);
onnx::AttributeProto IntsAttribute(const std::string& name, absl::Span<const int64_t> values);
onnx::AttributeProto FloatAttribute(const std::string& name, float value);
onnx::AttributeProto StringAttribute(const std::string& name, const std::string& value);

// A dimension of a graph input: a number, or -1 for the symbolic batch "N".
// Thread-compatible.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& graph_name);
  // Continues a graph: new values get names that it does not use.
  explicit GraphBuilder(onnx::ModelProto model);

  std::string Input(const std::string& name, DType dtype, absl::Span<const int64_t> dims);
  // Adds an input with another symbol than "N" for -1: a number that is not the batch's.
  std::string Input(const std::string& name, DType dtype, absl::Span<const int64_t> dims,
                    const std::string& symbol);
  // Adds a weight inside the model and returns its name: `name`, with a number if that is taken.
  std::string Constant(const std::string& name, const Tensor& value);
  // Adds a node with one output and returns its value's name. `domain` "" is ONNX. An input "" is
  // an absent optional one. Nodes are named prefix and operator, "dense_1/MatMul", then
  // "dense_1/MatMul_1".
  std::string Op(const std::string& op, absl::Span<const std::string> inputs,
                 std::vector<onnx::AttributeProto> attributes = {}, const std::string& domain = "");
  std::vector<std::string> OpN(const std::string& op, absl::Span<const std::string> inputs,
                               int num_outputs, std::vector<onnx::AttributeProto> attributes = {},
                               const std::string& domain = "");
  // Marks a value as graph output, under its own name.
  void Output(const std::string& value);
  // Names of the nodes that follow begin with this ("dense_1/").
  void SetNamePrefix(const std::string& prefix);

  // Checks and infers shapes. Errors: INVALID_ARGUMENT listing every offending node.
  absl::StatusOr<onnx::ModelProto> Finish();

 private:
  std::string FreshName(const std::string& stem);

  onnx::ModelProto model_;
  std::string prefix_;
  std::set<std::string> used_;           // names of values and nodes
  std::map<std::string, int64_t> next_;  // stem -> last number given
};

}  // namespace cohort
