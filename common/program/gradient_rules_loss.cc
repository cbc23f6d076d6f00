#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// AddGradients has made sure that the node gives log_prob, its second output.
absl::Status SoftmaxCrossEntropyLoss(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string& log_prob = site.output(1);
  std::string gradient;
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

// AddGradients has made sure that the node gives its mask, the second output.
absl::Status Dropout(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> inputs = {site.dy(), site.output(1), site.input(1), site.input(2)};
  while (inputs.back().empty()) inputs.pop_back();
  site.Set(0, site.Cohort("DropoutGrad", std::move(inputs)));
  return absl::OkStatus();
}

// The labels get no gradient: Keras treats them as data.
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
