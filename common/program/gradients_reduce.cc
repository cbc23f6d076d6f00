#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

absl::Status Softmax(GradientSite& site) {
  site.Set(0, site.Cohort("SoftmaxGrad", {site.dy(), site.output(0)},
                          {IntAttribute("axis", site.Int("axis", -1))}));
  return absl::OkStatus();
}

absl::Status LogSoftmax(GradientSite& site) {
  site.Set(0, site.Cohort("LogSoftmaxGrad", {site.dy(), site.output(0)},
                          {IntAttribute("axis", site.Int("axis", -1))}));
  return absl::OkStatus();
}

absl::Status ReduceMean(GradientSite& site) {
  auto attributes = site.CopyAttributes({"axes", "keepdims"});
  attributes.push_back(IntAttribute("mean", 1));
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

absl::Status ReduceSum(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  auto attributes = site.CopyAttributes({"keepdims"});
  std::vector<int64_t> axes;
  if (!site.input(1).empty()) {
    const auto constant = site.forward().ConstantInts(site.input(1));
    // The axes are an attribute of ReduceGrad, so they must be known before the graph runs.
    if (!constant) return absl::InvalidArgumentError("its axes are not a constant");
    axes = *constant;
  }
  // An empty list of axes means all axes. If the attribute noop_with_empty_axes is set, it means no
  // axes, and ReduceSum is the identity.
  if (axes.empty() && site.Int("noop_with_empty_axes", 0) != 0) {
    site.Set(0, site.dy());
    return absl::OkStatus();
  }
  if (!axes.empty()) attributes.push_back(IntsAttribute("axes", axes));
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

}  // namespace

void AddReduceGradients(GradientRules& rules) {
  rules["Softmax"] = {Softmax};
  rules["LogSoftmax"] = {LogSoftmax};
  rules["ReduceMean"] = {ReduceMean};
  rules["ReduceSum"] = {ReduceSum};
}

}  // namespace cohort
