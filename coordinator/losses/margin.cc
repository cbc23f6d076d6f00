// Hinge losses, which are 0 only if prediction and label agree by a margin.

#include "coordinator/losses/loss_table.h"

namespace cohort {
namespace {

// Returns the labels as -1 and 1. If all labels are 0 or 1, 0 becomes -1; otherwise the labels stay
// unchanged.
std::string SignedLabels(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string& y = site.y_true();
  const std::string is_bit = n.Or(n.Equal(y, n.Number(0)), n.Equal(y, n.Number(1)));
  const std::string all = n.Greater(n.SmallestAll(n.ToFloat(is_bit)), n.Number(0.5));
  return n.Where(all, n.Sub(n.Mul(y, 2), 1), y);
}

std::string Margins(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  return n.AtLeast(n.From(1, n.Mul(SignedLabels(site), site.y_pred())), 0);
}

ExampleLosses Hinge(const LossSite& site) {
  return {{site.nodes.Mean(Margins(site), {-1}), DimsWithout(site.in.y_pred, {-1})}, {}};
}

ExampleLosses SquaredHinge(const LossSite& site) {
  const std::string squares = site.nodes.Square(Margins(site));
  return {{site.nodes.Mean(squares, {-1}), DimsWithout(site.in.y_pred, {-1})}, {}};
}

ExampleLosses CategoricalHinge(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string right = n.Sum(n.Mul(site.y_true(), site.y_pred()), {-1});
  const std::string wrong = n.Largest(n.Mul(n.From(1, site.y_true()), site.y_pred()), {-1});
  const std::string margin = n.AtLeast(n.Add(n.Sub(wrong, right), 1), 0);
  return {{margin, DimsWithout(site.in.y_pred, {-1})}, {}};
}

}  // namespace

std::vector<LossRow> MarginLosses() {
  const LabelKind like = LabelKind::kLikeOutput;
  return {{"Hinge", {"hinge"}, like, {}, Hinge},
          {"SquaredHinge", {"squared_hinge"}, like, {}, SquaredHinge},
          {"CategoricalHinge", {"categorical_hinge"}, like, {}, CategoricalHinge}};
}

}  // namespace cohort
