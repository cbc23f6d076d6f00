#include "coordinator/layers/penalty.h"

#include <vector>

namespace cohort {
namespace {

// Computes factor / (n (n - 1)) * sum |cos|, over the angles between each two of the n rows or
// columns.
std::string AddOrthogonal(const RegularizerSpec& spec, const std::string& x, const Shape& shape,
                          const Nodes& nodes) {
  const int64_t axis = spec.columns ? 0 : 1;
  const int64_t vectors = shape.dim(spec.columns ? 1 : 0);
  const std::string squares = nodes.Reduce("ReduceSum", nodes.Mul(x, x), {axis});
  const std::string norm = nodes.Op("Sqrt", {nodes.Op("Max", {squares, nodes.Number(1e-12)})});
  const std::string unit = nodes.Div(x, norm);
  const std::string turned = nodes.Transpose(unit, {1, 0});
  const std::string cosines =
      spec.columns ? nodes.Op("MatMul", {turned, unit}) : nodes.Op("MatMul", {unit, turned});
  std::vector<float> others(static_cast<size_t>(vectors * vectors), 1);
  for (int64_t i = 0; i < vectors; ++i) others[static_cast<size_t>(i * vectors + i)] = 0;
  const std::string pairs =
      nodes.Mul(nodes.Op("Abs", {cosines}), nodes.Floats(others, Shape({vectors, vectors})));
  const double count = static_cast<double>(vectors * (vectors - 1)) / 2;
  return nodes.Mul(nodes.ReduceAway("ReduceSum", pairs, {0, 1}),
                   nodes.Number(count > 0 ? 0.5 * spec.orthogonal / count : 0));
}

}  // namespace

std::string AddPenalty(const RegularizerSpec& spec, const std::string& x, const Shape& shape,
                       const Nodes& nodes) {
  if (spec.orthogonal > 0) return AddOrthogonal(spec, x, shape, nodes);
  const auto sum = [&](const std::string& value, double strength) {
    const std::string total = nodes.graph().Op("ReduceSum", {value}, {IntAttribute("keepdims", 0)});
    return nodes.Mul(total, nodes.Number(strength));
  };
  std::string penalty;
  if (spec.l1 > 0) penalty = sum(nodes.Op("Abs", {x}), spec.l1);
  if (spec.l2 > 0) {
    const std::string squares = sum(nodes.Mul(x, x), spec.l2);
    penalty = penalty.empty() ? squares : nodes.Add(penalty, squares);
  }
  return penalty;
}

void AddActivityPenalties(const ActivityPenalty& penalty, absl::Span<const LayerValue> outputs,
                          LayerTarget& target) {
  if (penalty.regularizer.is_none() || target.mode == ModelMode::kPrediction) return;
  const Nodes nodes(target.graph);
  for (const LayerValue& output : outputs) {
    const Shape& shape = output.type.shape;
    std::string sum = AddPenalty(penalty.regularizer, output.value, shape, nodes);
    if (penalty.per_example) {
      const std::string size = nodes.Cast(nodes.Op("Size", {output.value}), DType::kFloat32);
      const auto elements = static_cast<double>(shape.num_elements());
      sum = nodes.Div(sum, nodes.Div(size, nodes.Number(elements)));
    }
    target.penalties.push_back(sum);
  }
}

}  // namespace cohort
