// Losses of Keras 3 that compare examples with each other, or sequences with labels.

#include "coordinator/losses/loss_table.h"

namespace cohort {
namespace {

// Stands for the logarithm of 0. If no pair counts, the sum's logarithm is about this number, and
// the loss becomes 0 without infinities.
constexpr double kNoPair = -1e30;

// Returns log(sum(exp(x))) along axis 1 over the pairs of the mask.
std::string LogSumOfPairs(FormulaNodes& n, const std::string& x, const std::string& mask) {
  const std::string counted = n.Where(mask, x, n.Number(kNoPair));
  return n.Op("ReduceLogSumExp", {counted},
              {IntsAttribute("axes", {1}), IntAttribute("keepdims", 0)});
}

// Returns a bool [N,N] that is true on the diagonal.
std::string Diagonal(FormulaNodes& n, const std::string& y_pred) {
  const std::string rows = n.RowsOf(y_pred);
  const std::string index = n.Op("Range", {n.Int(0), rows, n.Int(1)});
  return n.Equal(n.Unsqueeze(index, 1), n.Unsqueeze(index, 0));
}

ExampleLosses Circle(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const double margin = site.config().Number("margin");
  const double gamma = site.config().Number("gamma");
  const std::string likeness = n.Op("MatMul", {site.y_pred(), n.Transpose(site.y_pred(), {1, 0})});
  const std::string distance = n.AtLeast(n.From(1, likeness), 0);
  const std::string same = n.Equal(n.Unsqueeze(site.y_true(), 1), n.Unsqueeze(site.y_true(), 0));
  const std::string other = n.Not(same);
  std::string near = same;
  if (site.config().Flag("remove_diagonal")) {
    near = n.And(same, n.Not(Diagonal(n, site.y_pred())));
  }
  const std::string near_weight = n.AtLeast(n.Mul(n.Add(distance, margin), n.ToFloat(near)), 0);
  const std::string far_weight =
      n.AtLeast(n.Mul(n.From(1 + margin, distance), n.ToFloat(other)), 0);
  const std::string near_part = n.Mul(n.Mul(near_weight, -gamma), n.From(margin, distance));
  const std::string far_part = n.Mul(n.Mul(far_weight, gamma), n.From(1 - margin, distance));
  const std::string sum =
      n.Add(LogSumOfPairs(n, near_part, near), LogSumOfPairs(n, far_part, other));
  const std::string loss = n.Softplus(sum);
  const std::vector<int64_t> dims = DimsWithout(site.in.y_pred, {-1});
  // Examples whose loss is 0 do not count in the mean.
  return {{loss, dims}, {n.Greater(loss, n.Number(0)), dims, DType::kBool}};
}

ExampleLosses Ctc(const LossSite& site) {
  const std::string loss = site.nodes.CohortOp("CtcLoss", {site.y_true(), site.y_pred()});
  return {{loss, {site.in.y_pred.dims[0]}}, {}};
}

}  // namespace

std::vector<LossRow> EmbeddingLosses() {
  std::vector<LossRow> rows = {
      {"Circle",
       {"circle"},
       LabelKind::kClassRows,
       {NumberKey("gamma", 80, {.min = 0, .min_excluded = true}),
        NumberKey("margin", 0.4, {.min = -1e6, .max = 1e6}), FlagKey("remove_diagonal", true)},
       Circle},
      {"CTC", {"ctc"}, LabelKind::kSequences, {}, Ctc}};
  for (LossRow& row : rows) row.only_keras3 = true;
  return rows;
}

}  // namespace cohort
