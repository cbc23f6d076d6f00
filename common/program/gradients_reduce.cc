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
    // The gradient operator ReduceGrad takes its axes as an attribute, so the axes must be known
    // before the graph runs.
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

// Repeats `value`, which has the shape of a reduction's result (dy or y), along the reduced axes to
// the shape of the reduction's input. Returns the name of the repeated value.
std::string Repeated(GradientSite& site, const std::string& value) {
  return site.Cohort("ReduceGrad", {value, site.input(0)},
                     site.CopyAttributes({"axes", "keepdims"}));
}

absl::Status ReduceExtremum(GradientSite& site) {
  site.Set(0, site.Cohort("ReduceExtremumGrad", {site.dy(), site.input(0), site.output(0)},
                          site.CopyAttributes({"axes", "keepdims"})));
  return absl::OkStatus();
}

absl::Status ReduceProd(GradientSite& site) {
  site.Set(0, site.Cohort("ReduceProdGrad", {site.dy(), site.input(0)},
                          site.CopyAttributes({"axes", "keepdims"})));
  return absl::OkStatus();
}

absl::Status ReduceL1(GradientSite& site) {
  const std::string sign = site.Onnx("Sign", {site.input(0)});
  site.Set(0, site.Onnx("Mul", {Repeated(site, site.dy()), sign}));
  return absl::OkStatus();
}

// Sets the gradient of y = sqrt(sum(x * x)): dx = dy * x / y, which is NaN if all x are 0, as in
// TensorFlow.
absl::Status ReduceL2(GradientSite& site) {
  const std::string unit = site.Onnx("Div", {site.input(0), Repeated(site, site.output(0))});
  site.Set(0, site.Onnx("Mul", {Repeated(site, site.dy()), unit}));
  return absl::OkStatus();
}

absl::Status ReduceSumSquare(GradientSite& site) {
  const std::string twice = site.Onnx("Mul", {site.input(0), site.Scalar(2)});
  site.Set(0, site.Onnx("Mul", {Repeated(site, site.dy()), twice}));
  return absl::OkStatus();
}

// Sets the gradient of y = log(sum(x)): dx = dy * exp(-y).
absl::Status ReduceLogSum(GradientSite& site) {
  const std::string sum = site.Onnx("Exp", {site.output(0)});
  site.Set(0, Repeated(site, site.Onnx("Div", {site.dy(), sum})));
  return absl::OkStatus();
}

// Sets the gradient of y = log(sum(exp(x))): dx = dy * exp(x - y), the softmax of x.
absl::Status ReduceLogSumExp(GradientSite& site) {
  const std::string difference = site.Onnx("Sub", {site.input(0), Repeated(site, site.output(0))});
  const std::string softmax = site.Onnx("Exp", {difference});
  site.Set(0, site.Onnx("Mul", {Repeated(site, site.dy()), softmax}));
  return absl::OkStatus();
}

// Sets the gradient of CumSum: dx of an element is the sum of the dy of all results that contain
// the element. This is a CumSum of dy in the opposite direction.
absl::Status CumSum(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  auto attributes = site.CopyAttributes({"exclusive"});
  attributes.push_back(IntAttribute("reverse", site.Int("reverse", 0) != 0 ? 0 : 1));
  site.Set(0, site.Onnx("CumSum", {site.dy(), site.input(1)}, std::move(attributes)));
  return absl::OkStatus();
}

// Sets the gradient of TopK: each selected element gets the dy of its copy among the results, and
// all other elements get 0. TopK's second output has the indices of the selected elements. No index
// occurs twice in a line, so nothing is added up.
absl::Status TopK(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string zeros = site.Cohort("ZerosLike", {site.input(0)});
  site.Set(0, site.Onnx("ScatterElements", {zeros, site.output(1), site.dy()},
                        {IntAttribute("axis", site.Int("axis", -1))}));
  return absl::OkStatus();
}

}  // namespace

void AddReduceGradients(GradientRules& rules) {
  rules["Softmax"] = {Softmax};
  rules["LogSoftmax"] = {LogSoftmax};
  rules["ReduceMean"] = {ReduceMean};
  rules["ReduceSum"] = {ReduceSum};
  rules["ReduceMax"] = {ReduceExtremum};
  rules["ReduceMin"] = {ReduceExtremum};
  rules["ReduceProd"] = {ReduceProd};
  rules["ReduceL1"] = {ReduceL1};
  rules["ReduceL2"] = {ReduceL2};
  rules["ReduceSumSquare"] = {ReduceSumSquare};
  rules["ReduceLogSum"] = {ReduceLogSum};
  rules["ReduceLogSumExp"] = {ReduceLogSumExp};
  rules["CumSum"] = {CumSum};
  rules["TopK"] = {TopK, {"indices"}};
}

}  // namespace cohort
