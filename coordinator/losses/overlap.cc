// Losses of overlap, which Keras 3 has for segmentations: the part of an area that prediction and
// label do not share. Without an axis, the whole batch is one area.

#include "coordinator/losses/loss_table.h"

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-7;

// The sums that losses of overlap need, along the axes of the config.
class Areas {
 public:
  explicit Areas(const LossSite& site)
      : nodes_(site.nodes), axes_(site.config().Wholes("axis")), all_(axes_.empty()) {}

  std::string Sum(const std::string& x) { return all_ ? nodes_.SumAll(x) : nodes_.Sum(x, axes_); }
  ExampleLosses Losses(const LossSite& site, const std::string& share) {
    const std::vector<int64_t> dims =
        all_ ? std::vector<int64_t>() : DimsWithout(site.in.y_pred, axes_);
    return {{nodes_.From(1, share), dims}, {}};
  }

 private:
  FormulaNodes& nodes_;
  const std::vector<int64_t> axes_;
  const bool all_;
};

ExampleLosses Dice(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  Areas areas(site);
  const std::string shared = areas.Sum(n.Mul(site.y_true(), site.y_pred()));
  const std::string both = n.Add(areas.Sum(site.y_true()), areas.Sum(site.y_pred()));
  return areas.Losses(site, n.Div(n.Mul(shared, 2), n.Add(both, kEpsilon)));
}

ExampleLosses Tversky(const LossSite& site) {
  FormulaNodes& n = site.nodes;
  Areas areas(site);
  const std::string shared = areas.Sum(n.Mul(site.y_true(), site.y_pred()));
  // Keras calls the first sum false positives and the second false negatives, although it is the
  // other way round.
  const std::string missed = areas.Sum(n.Mul(n.From(1, site.y_pred()), site.y_true()));
  const std::string added = areas.Sum(n.Mul(site.y_pred(), n.From(1, site.y_true())));
  const std::string weighted = n.Add(n.Mul(missed, site.config().Number("alpha")),
                                     n.Mul(added, site.config().Number("beta")));
  return areas.Losses(site, n.Div(shared, n.Add(n.Add(shared, weighted), kEpsilon)));
}

}  // namespace

std::vector<LossRow> OverlapLosses() {
  const ConfigKey axis = OptionalWholesKey("axis", {.min = -8, .max = 8});
  const KeyRange share = {.min = 0, .max = 1e6};
  std::vector<LossRow> rows = {
      {"Dice", {"dice"}, LabelKind::kLikeOutput, {axis}, Dice},
      {"Tversky",
       {"tversky"},
       LabelKind::kLikeOutput,
       {NumberKey("alpha", 0.5, share), NumberKey("beta", 0.5, share), axis},
       Tversky}};
  for (LossRow& row : rows) row.only_keras3 = true;
  return rows;
}

}  // namespace cohort
