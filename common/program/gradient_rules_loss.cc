#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Sets the gradient of the scores. AddGradients has ensured that the node has its second output,
// log_prob.
absl::Status SoftmaxCrossEntropyLoss(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string& log_prob = site.output(1);
  std::string gradient;
  // The scores get a gradient from the loss, and also from log_prob if later nodes use log_prob.
  if (!site.dy(0).empty()) {
    std::vector<std::string> inputs = {site.dy(0), log_prob, site.input(1)};
    if (!site.input(2).empty()) inputs.push_back(site.input(2));
    gradient = site.Cohort("SoftmaxCrossEntropyGrad", std::move(inputs),
                           site.CopyAttributes({"reduction", "ignore_index"}));
  }
  if (!site.dy(1).empty()) {
    const std::string direct =
        site.Cohort("LogSoftmaxGrad", {site.dy(1), log_prob}, {IntAttribute("axis", 1)});
    gradient = gradient.empty() ? direct : site.Onnx("Add", {gradient, direct});
  }
  site.Set(0, gradient);
  return absl::OkStatus();
}

// Sets the gradient of x. AddGradients has ensured that the node has its second output, the mask.
absl::Status Dropout(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> inputs = {site.dy(), site.output(1), site.input(1), site.input(2)};
  // ONNX does not allow absent inputs at the end of the list.
  while (inputs.back().empty()) inputs.pop_back();
  site.Set(0, site.Cohort("DropoutGrad", std::move(inputs)));
  return absl::OkStatus();
}

// Sets the gradient of y_pred. The labels get no gradient, because Keras treats them as data.
absl::Status CategoricalCrossentropy(GradientSite& site) {
  if (!site.Wants(1)) return absl::OkStatus();
  site.Set(1, site.Cohort("CategoricalCrossentropyGrad", {site.dy(), site.input(0), site.input(1)},
                          site.CopyAttributes({"axis", "from_logits"})));
  return absl::OkStatus();
}

absl::Status SparseCategoricalCrossentropy(GradientSite& site) {
  site.Set(
      1, site.Cohort("SparseCategoricalCrossentropyGrad", {site.dy(), site.input(0), site.input(1)},
                     site.CopyAttributes({"from_logits"})));
  return absl::OkStatus();
}

}  // namespace

void AddLossRules(GradientRules& rules) {
  rules["SoftmaxCrossEntropyLoss"] = SoftmaxCrossEntropyLoss;
  rules["Dropout"] = Dropout;
  rules["cohort.CategoricalCrossentropy"] = CategoricalCrossentropy;
  rules["cohort.SparseCategoricalCrossentropy"] = SparseCategoricalCrossentropy;
}

}  // namespace cohort
