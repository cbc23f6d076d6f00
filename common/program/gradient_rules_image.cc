#include <numeric>
#include <utility>

#include "common/program/gradient_rules.h"
#include "common/program/opset.h"

namespace cohort {
namespace {

// Returns the attributes that describe the windows; the gradient needs the same windows.
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
  // The bias of a Conv is added to every position of its channel, so its gradient is a sum over all
  // other axes.
  if (site.Wants(2)) {
    const auto rank = site.forward().types().rank(site.output(0));
    if (!rank) return absl::InvalidArgumentError("the rank of its result is unknown");
    std::vector<int64_t> axes(static_cast<size_t>(*rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;  // all axes except axis 1, the channels
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
  // The first two axes of the input are the batch and the channels; the mean is over all later
  // axes.
  const auto rank = site.forward().types().rank(site.input(0));
  if (!rank) return absl::InvalidArgumentError("the rank of its input is unknown");
  std::vector<int64_t> axes(static_cast<size_t>(*rank) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)},
                          {IntsAttribute("axes", axes), IntAttribute("mean", 1)}));
  return absl::OkStatus();
}

// Sets the gradients of x, scale and bias. A given mean and variance are data, and the running
// statistics are not trained.
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
  // In training mode, BatchNormalizationGrad computes the mean and the variance again from x.
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

// Sets the gradient of x, which is an AllReduce of dy with the other value of of_mean_losses. Each
// replica's x enters every replica's result, just as each result's gradient enters every dx.
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
