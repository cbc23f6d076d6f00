#include <numeric>
#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Returns the attributes that describe the windows of a convolution or pooling. The gradient has
// the same windows.
std::vector<onnx::AttributeProto> WindowAttributes(const GradientSite& site) {
  return site.CopyAttributes({"auto_pad", "kernel_shape", "strides", "dilations", "pads", "group",
                              "ceil_mode", "storage_order", "count_include_pad", "output_padding",
                              "output_shape"});
}

// Sets the gradients of Conv or ConvTranspose, which the operators <name>InputGrad and
// <name>WeightGrad compute.
absl::Status Convolution(GradientSite& site) {
  const auto attributes = WindowAttributes(site);
  const std::string& name = site.node().op_type();
  if (site.Wants(0)) {
    site.Set(
        0, site.Cohort(name + "InputGrad", {site.dy(), site.input(1), site.input(0)}, attributes));
  }
  if (site.Wants(1)) {
    site.Set(
        1, site.Cohort(name + "WeightGrad", {site.dy(), site.input(0), site.input(1)}, attributes));
  }
  // The bias of a channel is added to every element of the channel, so the bias's gradient is the
  // sum of dy over all axes except the channels.
  if (site.Wants(2)) {
    const auto rank = site.forward().types().rank(site.input(0));
    if (!rank) return absl::InvalidArgumentError("the rank of its input is unknown");
    std::vector<int64_t> axes(static_cast<size_t>(*rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;  // axes 0, 2, 3, ...: all axes except axis 1, the channels
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
  // Axes 0 and 1 of GlobalAveragePool's input are the batch and the channels. The mean is over all
  // later axes.
  const auto rank = site.forward().types().rank(site.input(0));
  if (!rank) return absl::InvalidArgumentError("the rank of its input is unknown");
  std::vector<int64_t> axes(static_cast<size_t>(*rank) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)},
                          {IntsAttribute("axes", axes), IntAttribute("mean", 1)}));
  return absl::OkStatus();
}

absl::Status Resize(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  for (int i = 0; i < 4; ++i) inputs.push_back(site.input(i));
  // In ONNX, a node's list of inputs must not end with absent inputs.
  while (inputs.back().empty()) inputs.pop_back();
  site.Set(0, site.Cohort("ResizeGrad", std::move(inputs),
                          site.CopyAttributes({"mode", "nearest_mode", "exclude_outside",
                                               "coordinate_transformation_mode", "cubic_coeff_a",
                                               "extrapolation_value"})));
  return absl::OkStatus();
}

}  // namespace

void AddImageGradients(GradientRules& rules) {
  rules["Conv"] = {Convolution};
  rules["ConvTranspose"] = {Convolution};
  rules["MaxPool"] = {MaxPool};
  rules["AveragePool"] = {AveragePool};
  rules["GlobalAveragePool"] = {GlobalAveragePool};
  rules["Resize"] = {Resize};
}

}  // namespace cohort
