#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Sets both gradients of y = a + b to dy. The gradient of a broadcast input is summed over the axes
// of the broadcast.
absl::Status Add(GradientSite& site) {
  for (const int i : {0, 1}) {
    if (site.Wants(i)) site.SetReduced(i, site.dy());
  }
  return absl::OkStatus();
}

absl::Status Sub(GradientSite& site) {
  if (site.Wants(0)) site.SetReduced(0, site.dy());
  if (site.Wants(1)) site.SetReduced(1, site.Onnx("Neg", {site.dy()}));
  return absl::OkStatus();
}

absl::Status Mul(GradientSite& site) {
  for (const int i : {0, 1}) {
    // In y = a * b, the gradient of one factor is dy times the other factor.
    if (site.Wants(i)) site.SetReduced(i, site.Onnx("Mul", {site.dy(), site.input(1 - i)}));
  }
  return absl::OkStatus();
}

// Sets the gradients of y = a / b: da = dy / b and db = -dy * y / b.
absl::Status Div(GradientSite& site) {
  const std::string ratio = site.Onnx("Div", {site.dy(), site.input(1)});
  if (site.Wants(0)) site.SetReduced(0, ratio);
  if (site.Wants(1)) {
    site.SetReduced(1, site.Onnx("Neg", {site.Onnx("Mul", {ratio, site.output(0)})}));
  }
  return absl::OkStatus();
}

absl::Status Neg(GradientSite& site) {
  site.Set(0, site.Onnx("Neg", {site.dy()}));
  return absl::OkStatus();
}

// Sets the gradient of y = sqrt(x): dx = dy / (2 y).
absl::Status Sqrt(GradientSite& site) {
  const std::string half = site.Onnx("Mul", {site.dy(), site.Scalar(0.5)});
  site.Set(0, site.Onnx("Div", {half, site.output(0)}));
  return absl::OkStatus();
}

absl::Status Exp(GradientSite& site) {
  // The derivative of exp(x) is exp(x), which is the node's output.
  site.Set(0, site.Onnx("Mul", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Log(GradientSite& site) {
  site.Set(0, site.Onnx("Div", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

absl::Status Relu(GradientSite& site) {
  site.Set(0, site.Cohort("ReluGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Sigmoid(GradientSite& site) {
  site.Set(0, site.Cohort("SigmoidGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

absl::Status Tanh(GradientSite& site) {
  site.Set(0, site.Cohort("TanhGrad", {site.dy(), site.output(0)}));
  return absl::OkStatus();
}

}  // namespace

void AddElementwiseGradients(GradientRules& rules) {
  rules["Add"] = {Add};
  rules["Sub"] = {Sub};
  rules["Mul"] = {Mul};
  rules["Div"] = {Div};
  rules["Neg"] = {Neg};
  rules["Sqrt"] = {Sqrt};
  rules["Exp"] = {Exp};
  rules["Log"] = {Log};
  rules["Relu"] = {Relu};
  rules["Sigmoid"] = {Sigmoid};
  rules["Tanh"] = {Tanh};
}

}  // namespace cohort
