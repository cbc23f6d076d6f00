#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Sets the gradient of SoftmaxCrossEntropyLoss with respect to the scores (input 0). AddGradients
// has given the node its second output, log_prob.
absl::Status SoftmaxCrossEntropyLoss(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string& log_prob = site.output(1);
  std::string gradient;
  // The scores get one gradient from the loss, and a second one from log_prob if other nodes use
  // log_prob.
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

// Sets the gradient of Dropout with respect to its data input. AddGradients has given the node its
// second output, the mask.
absl::Status Dropout(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> inputs = {site.dy(), site.output(1), site.input(1), site.input(2)};
  // ONNX does not allow absent inputs at the end of a node's list of inputs, so they are removed.
  while (inputs.back().empty()) inputs.pop_back();
  site.Set(0, site.Cohort("DropoutGrad", std::move(inputs)));
  return absl::OkStatus();
}

// Sets the gradient of CategoricalCrossentropy with respect to y_pred. The labels get no gradient,
// because Keras treats labels as data.
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

absl::Status Ctc(GradientSite& site) {
  site.Set(1, site.Cohort("CtcLossGrad", {site.dy(), site.input(0), site.input(1)}));
  return absl::OkStatus();
}

}  // namespace

void AddLossGradients(GradientRules& rules) {
  rules["SoftmaxCrossEntropyLoss"] = {SoftmaxCrossEntropyLoss, {"log_prob"}};
  rules["Dropout"] = {Dropout, {"mask"}};
  rules["cohort.CategoricalCrossentropy"] = {CategoricalCrossentropy};
  rules["cohort.SparseCategoricalCrossentropy"] = {SparseCategoricalCrossentropy};
  rules["cohort.CtcLoss"] = {Ctc};
}

}  // namespace cohort
