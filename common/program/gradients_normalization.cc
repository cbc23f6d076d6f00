#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Sets the gradients of BatchNormalization with respect to x, scale and bias. The mean and variance
// that the node is given are data without a gradient, and its running statistics are not trained.
absl::Status BatchNormalization(GradientSite& site) {
  for (int i = 1; i < site.node().output_size(); ++i) {
    if (!site.dy(i).empty()) {
      return absl::InvalidArgumentError("its running statistics have no gradient");
    }
  }
  const bool training = site.Int("training_mode", 0) != 0;
  if (!training && (site.Wants(3) || site.Wants(4))) {
    return absl::InvalidArgumentError("the mean and variance that it is given have no gradient");
  }
  std::vector<std::string> inputs = {site.dy(), site.input(0), site.input(1)};
  // The mean and the variance are inputs of BatchNormalizationGrad only outside training mode. In
  // training mode, BatchNormalizationGrad computes both from x.
  if (!training) {
    inputs.push_back(site.input(3));
    inputs.push_back(site.input(4));
  }
  const auto gradients =
      site.builder().OpN("BatchNormalizationGrad", inputs, 3,
                         site.CopyAttributes({"epsilon", "training_mode"}), kCohortDomain);
  for (int i = 0; i < 3; ++i) {
    if (site.Wants(i)) site.Set(i, gradients[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

// Adds the gradient node `op` of a normalization, whose inputs are dy, x, scale and `further`, and
// sets the gradients of x, scale and bias.
void SetNormalizationGradients(GradientSite& site, const std::string& op,
                               const std::vector<std::string>& further) {
  std::vector<std::string> inputs = {site.dy(), site.input(0), site.input(1)};
  inputs.insert(inputs.end(), further.begin(), further.end());
  const auto gradients = site.builder().OpN(
      op, inputs, 3, site.CopyAttributes({"axis", "epsilon", "groups"}), kCohortDomain);
  for (int i = 0; i < 3; ++i) {
    if (site.Wants(i)) site.Set(i, gradients[static_cast<size_t>(i)]);
  }
}

// Sets the gradients of LayerNormalization. AddGradients has given the node its statistics, which
// ONNX keeps in float32; the gradient of float64 computes them again.
absl::Status LayerNormalization(GradientSite& site) {
  for (int i = 1; i < site.node().output_size(); ++i) {
    if (!site.dy(i).empty()) return absl::InvalidArgumentError("its statistics have no gradient");
  }
  std::vector<std::string> statistics;
  if (site.forward().types().dtype(site.input(0)) == DType::kFloat32) {
    statistics = {site.output(1), site.output(2)};
  }
  SetNormalizationGradients(site, "LayerNormalizationGrad", statistics);
  return absl::OkStatus();
}

// Sets the gradients of InstanceNormalization, or of GroupNormalization of the cohort domain.
absl::Status GroupNormalization(GradientSite& site) {
  SetNormalizationGradients(site, "GroupNormalizationGrad", {});
  return absl::OkStatus();
}

}  // namespace

void AddNormalizationGradients(GradientRules& rules) {
  rules["LayerNormalization"] = {LayerNormalization, {"mean", "inv_std_dev"}};
  rules["InstanceNormalization"] = {GroupNormalization};
  rules["cohort.GroupNormalization"] = {GroupNormalization};
  rules["BatchNormalization"] = {BatchNormalization};
}

}  // namespace cohort
