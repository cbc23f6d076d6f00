#include "common/runtime/run/fusion.h"

#include <map>
#include <set>
#include <string>

namespace cohort {

namespace {

// Returns the shapes of float32 weights and inputs that the graph declares in full, with a number
// for every extent. Fused kernels take no other type than float32.
std::map<std::string, std::vector<int64_t>> DeclaredShapes(const onnx::GraphProto& graph) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const onnx::TensorProto& weight : graph.initializer()) {
    if (weight.data_type() != onnx::TensorProto::FLOAT) continue;
    shapes[weight.name()] = {weight.dims().begin(), weight.dims().end()};
  }
  for (const onnx::ValueInfoProto& input : graph.input()) {
    // If a graph input has the name of a weight, the weight is only the input's default, so only
    // the input's declared type counts.
    shapes.erase(input.name());
    const onnx::TypeProto_Tensor& type = input.type().tensor_type();
    if (!type.has_shape() || type.elem_type() != onnx::TensorProto::FLOAT) continue;
    std::vector<int64_t> dims;
    bool known = true;
    for (const auto& dim : type.shape().dim()) {
      known = known && dim.has_dim_value();
      dims.push_back(dim.dim_value());
    }
    if (known) shapes[input.name()] = dims;
  }
  return shapes;
}

// The positions of the nodes that read each value, and the values that are graph outputs.
class Readers {
 public:
  Readers(const onnx::GraphProto& graph, const std::vector<onnx::NodeProto>& nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string& input : nodes[i].input()) readers_[input].push_back(i);
    }
    for (const onnx::ValueInfoProto& output : graph.output()) outputs_.insert(output.name());
  }

  // Returns true and sets `reader` if exactly one node reads the value. Returns false if more nodes
  // read the value, if no node reads the value, or if the value is a graph output.
  bool Only(const std::string& value, size_t& reader) const {
    const auto it = readers_.find(value);
    if (it == readers_.end() || it->second.size() != 1 || outputs_.count(value) > 0) return false;
    reader = it->second[0];
    return true;
  }

 private:
  std::map<std::string, std::vector<size_t>> readers_;
  std::set<std::string> outputs_;
};

bool IsOnnx(const onnx::NodeProto& node, const char* op) {
  return node.op_type() == op && (node.domain().empty() || node.domain() == "ai.onnx");
}

// Fuses three nodes into one, which needs one pass over the product instead of three: a MatMul by a
// matrix of declared shape, the Add of a bias with one element for each column, and a Relu if one
// follows. Other shapes broadcast in ways that are not worth a fused kernel. The fused node takes
// the position and the output of the last node that it replaces, so the order of nodes stays valid.
void FuseBias(size_t product, const std::map<std::string, std::vector<int64_t>>& shapes,
              const Readers& readers, std::vector<onnx::NodeProto>& nodes) {
  const onnx::NodeProto mat_mul = nodes[product];
  size_t sum = 0;
  if (!IsOnnx(mat_mul, "MatMul") || mat_mul.input_size() != 2 || mat_mul.output_size() != 1) return;
  if (!readers.Only(mat_mul.output(0), sum) || !IsOnnx(nodes[sum], "Add")) return;
  if (nodes[sum].input_size() != 2 || nodes[sum].output_size() != 1) return;
  // Add is commutative, so the bias may be its first or its second input.
  const int other = nodes[sum].input(0) == mat_mul.output(0) ? 1 : 0;
  const auto weight = shapes.find(mat_mul.input(1));
  const auto bias = shapes.find(nodes[sum].input(other));
  if (weight == shapes.end() || weight->second.size() != 2) return;
  if (bias == shapes.end() || bias->second != std::vector<int64_t>{weight->second[1]}) return;

  // All conditions for the fusion of MatMul and Add hold. The fused node starts as a copy of the
  // MatMul.
  onnx::NodeProto fused = mat_mul;
  fused.set_domain(kRuntimeDomain);
  fused.set_op_type("MatMulBias");
  fused.add_input(bias->first);
  size_t last = sum;
  size_t relu = 0;
  if (readers.Only(nodes[sum].output(0), relu) && IsOnnx(nodes[relu], "Relu")) {
    onnx::AttributeProto& activation = *fused.add_attribute();
    activation.set_name("activation");
    activation.set_type(onnx::AttributeProto::STRING);
    activation.set_s("Relu");
    last = relu;
  }
  fused.set_output(0, nodes[last].output(0));
  // The replaced nodes stay in `nodes`, so that positions do not change, but lose their inputs and
  // outputs.
  const auto retire = [&nodes](size_t node) {
    nodes[node].clear_input();
    nodes[node].clear_output();
  };
  retire(product);
  retire(sum);
  nodes[last] = fused;
}

}  // namespace

void FuseNodes(const onnx::GraphProto& graph, const KernelRegistry& registry,
               std::vector<onnx::NodeProto>& nodes) {
  if (registry.Find(kRuntimeDomain, "MatMulBias") == nullptr) return;
  const auto shapes = DeclaredShapes(graph);
  const Readers readers(graph, nodes);
  for (size_t i = 0; i < nodes.size(); ++i) FuseBias(i, shapes, readers, nodes);
}

}  // namespace cohort
