#include "coordinator/losses/loss_reduction.h"

#include <utility>

namespace cohort {
namespace {

// Returns the weights times the mask. If one of them is absent, returns the other.
NodeValue Joined(const NodeValue& weight, const NodeValue& mask, const NodeValue& values,
                 FormulaNodes& nodes) {
  if (!mask.has_value()) return weight;
  NodeValue counted = mask;
  counted.name = nodes.ToFloat(mask.name);
  counted.dtype = DType::kFloat32;
  if (!weight.has_value()) return counted;
  const NodeValue aligned = AlignWeight(weight, values, nodes);
  counted = AlignWeight(counted, values, nodes);
  return {nodes.Mul(aligned.name, counted.name), counted.dims};
}

// Returns a mask that is true where both masks are.
NodeValue BothMasks(const NodeValue& a, const NodeValue& b, FormulaNodes& nodes) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return {nodes.And(a.name, b.name), a.dims, DType::kBool};
}

// The parts of a reduced loss; w is a weight, m the mask, l a loss.
struct Parts {
  NodeValue weighted;                // w m l, or l
  NodeValue weight;                  // w m; may be absent
  NodeValue mask;                    // m; may be absent
  std::string denominator;           // float32 scalar; "": 1
  bool is_number_of_losses = false;  // true: the denominator is the number of weighted losses
};

// Returns the number of elements as a float32 scalar.
std::string CountOf(const NodeValue& value, FormulaNodes& nodes) {
  return nodes.ToFloat(nodes.SizeOf(value.name));
}

Parts PartsOf(LossReduction reduction, const ExampleLosses& losses, const ExampleWeights& weights,
              FormulaNodes& nodes) {
  Parts parts;
  parts.mask = BothMasks(weights.mask, losses.mask, nodes);
  parts.weight = Joined(weights.sample_weight, parts.mask, losses.values, nodes);
  parts.weighted = losses.values;
  if (parts.weight.has_value()) {
    const NodeValue aligned = AlignWeight(parts.weight, losses.values, nodes);
    parts.weighted.name = nodes.Mul(losses.values.name, aligned.name);
    // A loss that is a single number for the whole batch is repeated for each weight.
    if (losses.values.rank() == 0) parts.weighted.dims = aligned.dims;
  }
  if (reduction == LossReduction::kMeanWithSampleWeight && parts.weight.has_value()) {
    parts.denominator = nodes.SumAll(parts.weight.name);
  } else if (reduction == LossReduction::kSumOverBatchSize && parts.mask.has_value()) {
    parts.denominator = nodes.SumAll(nodes.ToFloat(parts.mask.name));
  } else if (reduction != LossReduction::kSum && reduction != LossReduction::kNone) {
    parts.denominator = CountOf(parts.weighted, nodes);
    parts.is_number_of_losses = true;
  }
  return parts;
}

// Returns a / b, or 0 where b is 0.
std::string DivideOrZero(const std::string& a, const std::string& b, FormulaNodes& nodes) {
  const std::string is_zero = nodes.Equal(b, nodes.Number(0));
  const std::string divisor = nodes.Where(is_zero, nodes.Number(1), b);
  return nodes.Where(is_zero, nodes.Number(0), nodes.Div(a, divisor));
}

// Returns the sum of x over all replicas of the step.
std::string OverReplicas(const std::string& x, FormulaNodes& nodes) {
  return nodes.CohortOp("AllReduce", {x}, {StringAttribute("reduction", "sum")});
}

}  // namespace

NodeValue AlignWeight(const NodeValue& weight, const NodeValue& values, FormulaNodes& nodes) {
  NodeValue aligned = weight;
  while (aligned.rank() > values.rank() && aligned.dims.back() == 1 && aligned.rank() > 1) {
    aligned.name = nodes.Squeeze(aligned.name, -1);
    aligned.dims.pop_back();
  }
  // A scalar weight holds for all entries, so it broadcasts.
  while (aligned.rank() > 0 && aligned.rank() < values.rank()) {
    aligned.name = nodes.Unsqueeze(aligned.name, -1);
    aligned.dims.push_back(1);
  }
  return aligned;
}

NodeValue ReduceLosses(LossReduction reduction, const ExampleLosses& losses,
                       const ExampleWeights& weights, FormulaNodes& nodes) {
  const Parts parts = PartsOf(reduction, losses, weights, nodes);
  if (reduction == LossReduction::kNone) return parts.weighted;
  // A scalar needs no sum.
  const std::string sum =
      parts.weighted.rank() == 0 ? parts.weighted.name : nodes.SumAll(parts.weighted.name);
  if (parts.denominator.empty()) return {sum, {}};
  return {DivideOrZero(sum, parts.denominator, nodes), {}};
}

BatchLoss AddBatchLoss(LossReduction reduction, const ExampleLosses& losses,
                       const ExampleWeights& weights, const std::string& examples,
                       FormulaNodes& nodes) {
  const Parts parts = PartsOf(reduction, losses, weights, nodes);
  const bool is_mean = reduction == LossReduction::kNone || parts.is_number_of_losses;
  // If there is one loss for each example, the number of losses is the number of examples.
  const bool by_example = parts.weighted.rank() == 1;
  const std::string sum = nodes.SumAll(parts.weighted.name);
  const std::string mean = is_mean ? nodes.Mean(parts.weighted.name, {}) : "";
  const std::string reported = by_example || !is_mean ? sum : nodes.Mul(mean, examples);
  // The replicas' means, weighted by their examples, are the mean of the whole batch, because every
  // example has equally many losses.
  if (parts.is_number_of_losses) return {mean, reported};
  // The replica's part of the loss of the whole batch, times the number of all examples.
  std::string part = nodes.Mul(sum, OverReplicas(examples, nodes));
  if (!parts.denominator.empty()) {
    part = DivideOrZero(part, OverReplicas(parts.denominator, nodes), nodes);
  }
  // Without a reduction, gradients are those of the sum, and the mean is reported.
  return {DivideOrZero(part, examples, nodes), is_mean ? reported : part};
}

}  // namespace cohort
