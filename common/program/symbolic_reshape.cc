#include "common/program/symbolic_reshape.h"

#include <cstdint>
#include <optional>

#include "common/program/value_types.h"

namespace cohort {
namespace {

// A shape as product * one dimension that is no number.
struct Factored {
  int64_t product = 1;
  int open = -1;  // position of the dimension that is no number
};

// Nothing when no dimension or more than one is no number, or a number is 0: that proves nothing.
std::optional<Factored> Factor(const onnx::TensorShapeProto& shape) {
  Factored result;
  for (int i = 0; i < shape.dim_size(); ++i) {
    if (!shape.dim(i).has_dim_value()) {
      if (result.open >= 0) return std::nullopt;
      result.open = i;
    } else if (__builtin_mul_overflow(result.product, shape.dim(i).dim_value(), &result.product)) {
      return std::nullopt;
    }
  }
  if (result.open < 0 || result.product == 0) return std::nullopt;
  return result;
}

}  // namespace

bool IsMadeUpSymbol(const std::string& dim_param) {
  return dim_param.empty() || dim_param.rfind("unk__", 0) == 0;
}

bool NameReshapedDims(const onnx::GraphProto& graph, NamedShapes& named) {
  const ValueTypes types(graph);
  std::map<std::string, std::string> names;  // made-up symbol -> name, so a chain needs one round
  bool added = false;
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Reshape" || !node.domain().empty()) continue;
    const auto* from = types.shape(node.input(0));
    const auto* to = types.shape(node.output(0));
    if (from == nullptr || to == nullptr) continue;
    const auto x = Factor(*from);
    const auto y = Factor(*to);
    if (!x || !y || x->product != y->product) continue;
    std::string name = from->dim(x->open).dim_param();
    if (const auto known = names.find(name); known != names.end()) name = known->second;
    const std::string& symbol = to->dim(y->open).dim_param();
    if (IsMadeUpSymbol(name) || !IsMadeUpSymbol(symbol)) continue;
    onnx::TypeProto type = *types.Find(node.output(0));
    auto* dims = type.mutable_tensor_type()->mutable_shape();
    dims->mutable_dim(y->open)->set_dim_param(name);
    if (!symbol.empty()) names[symbol] = name;
    added |= named.emplace(node.output(0), std::move(type)).second;
  }
  return added;
}

}  // namespace cohort
