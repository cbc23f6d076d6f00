#include <numeric>
#include <utility>

#include "common/program/gradient_rules.h"
#include "common/program/opset.h"

namespace cohort {
namespace {

std::vector<onnx::AttributeProto> WindowAttributes(const GradientSite& site) {
  return site.CopyAttributes({"auto_pad", "kernel_shape", "strides", "dilations", "pads", "group",
                              "ceil_mode", "storage_order", "count_include_pad"});
}

absl::Status Conv(GradientSite& site) {
  const auto attributes = WindowAttributes(site);
  if (site.Wants(0)) {
    site.Set(0,
             site.Cohort("ConvInputGrad", {site.dy(), site.input(1), site.input(0)}, attributes));
  }
  if (site.Wants(1)) {
    site.Set(1,
             site.Cohort("ConvWeightGrad", {site.dy(), site.input(0), site.input(1)}, attributes));
  }
  if (site.Wants(2)) {
    const auto rank = site.forward().types().rank(site.output(0));
    if (!rank) return absl::InvalidArgumentError("the rank of its result is unknown");
    std::vector<int64_t> axes(static_cast<size_t>(*rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;  // all but the channels
    site.Set(2,
             site.Onnx("ReduceSum", {site.dy(), site.Int64s(axes)}, {IntAttribute("keepdims", 0)}));
  }
  return absl::OkStatus();
}

absl::Status MaxPool(GradientSite& site) {
  site.Set(0, site.Cohort("MaxPoolGrad", {site.dy(), site.input(0)}, WindowAttributes(site)));
  return absl::OkStatus();
}

absl::Status AveragePool(GradientSite& site) {
  site.Set(0, site.Cohort("AveragePoolGrad", {site.dy(), site.input(0)}, WindowAttributes(site)));
  return absl::OkStatus();
}

absl::Status GlobalAveragePool(GradientSite& site) {
  const auto rank = site.forward().types().rank(site.input(0));
  if (!rank) return absl::InvalidArgumentError("the rank of its input is unknown");
  std::vector<int64_t> axes(static_cast<size_t>(*rank) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)},
                          {IntsAttribute("axes", axes), IntAttribute("mean", 1)}));
  return absl::OkStatus();
}

// The statistics that are given are data, and what becomes of the running ones is not trained.
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

// Each replica's x is in every replica's result, as each result's gradient is in every dx, so the
// gradient of one form is the other.
absl::Status AllReduce(GradientSite& site) {
  auto attributes = site.CopyAttributes({"reduction"});
  attributes.push_back(IntAttribute("of_mean_losses", 1 - site.Int("of_mean_losses", 0)));
  site.Set(0, site.Cohort("AllReduce", {site.dy()}, std::move(attributes)));
  return absl::OkStatus();
}

absl::Status AllGather(GradientSite& site) {
  site.Set(0, site.Cohort("AllGatherGrad", {site.dy(), site.input(0)},
                          {IntAttribute("axis", site.Int("axis", 0))}));
  return absl::OkStatus();
}

}  // namespace

void AddImageRules(GradientRules& rules) {
  rules["Conv"] = Conv;
  rules["MaxPool"] = MaxPool;
  rules["AveragePool"] = AveragePool;
  rules["GlobalAveragePool"] = GlobalAveragePool;
  rules["BatchNormalization"] = BatchNormalization;
  rules["cohort.AllReduce"] = AllReduce;
  rules["cohort.AllGather"] = AllGather;
}

}  // namespace cohort
