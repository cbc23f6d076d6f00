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

}  // namespace

void AddNormalizationGradients(GradientRules& rules) {
  rules["BatchNormalization"] = {BatchNormalization};
}

}  // namespace cohort
