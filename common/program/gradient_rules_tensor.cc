#include <utility>

#include "common/program/gradient_rules.h"
#include "common/program/opset.h"

namespace cohort {
namespace {

absl::Status Identity(GradientSite& site) {
  site.Set(0, site.dy());
  return absl::OkStatus();
}

// Sets the gradient of Reshape and Flatten, which keep the elements and their order.
absl::Status SameElements(GradientSite& site) {
  if (site.Wants(0)) site.Set(0, site.Cohort("ReshapeLike", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

// Sets the gradient of Transpose. Without perm, Transpose reverses the axes, and so does its
// gradient.
absl::Status Transpose(GradientSite& site) {
  const auto* perm = site.Attribute("perm");
  if (perm == nullptr) {
    site.Set(0, site.Onnx("Transpose", {site.dy()}));
    return absl::OkStatus();
  }
  std::vector<int64_t> inverse(static_cast<size_t>(perm->ints_size()));
  for (int i = 0; i < perm->ints_size(); ++i) {
    // The gradient goes back through the inverse permutation.
    inverse[static_cast<size_t>(perm->ints(i))] = i;
  }
  site.Set(0, site.Onnx("Transpose", {site.dy()}, {IntsAttribute("perm", inverse)}));
  return absl::OkStatus();
}

absl::Status Concat(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  const int count = site.node().input_size();
  // The inputs only lend their shapes, which may be unknown until the graph runs.
  for (int i = 0; i < count; ++i) inputs.push_back(site.input(i));
  const auto pieces = site.builder().OpN(
      "ConcatGrad", inputs, count, {IntAttribute("axis", site.Int("axis", 0))}, kCohortDomain);
  for (int i = 0; i < count; ++i) {
    if (site.Wants(i)) site.Set(i, pieces[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

absl::Status Cast(GradientSite& site) {
  // The gradient has the type of the input, not of the output.
  const DType from = site.forward().types().dtype(site.input(0));
  site.Set(0, site.Onnx("Cast", {site.dy()}, {IntAttribute("to", static_cast<int64_t>(from))}));
  return absl::OkStatus();
}

absl::Status Gather(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  site.Set(0, site.Cohort("GatherGrad", {site.dy(), site.input(1), site.input(0)},
                          {IntAttribute("axis", site.Int("axis", 0))}));
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
    // The gradient's axes are an attribute, so they must be known before the graph runs.
    if (!constant) return absl::InvalidArgumentError("its axes are not a constant");
    axes = *constant;
  }
  // By default, empty axes mean all axes; with this attribute they mean no axes.
  if (axes.empty() && site.Int("noop_with_empty_axes", 0) != 0) return Identity(site);
  if (!axes.empty()) attributes.push_back(IntsAttribute("axes", axes));
  site.Set(0, site.Cohort("ReduceGrad", {site.dy(), site.input(0)}, std::move(attributes)));
  return absl::OkStatus();
}

}  // namespace

void AddTensorRules(GradientRules& rules) {
  rules["Identity"] = Identity;
  rules["Reshape"] = SameElements;
  rules["Flatten"] = SameElements;
  rules["Transpose"] = Transpose;
  rules["Concat"] = Concat;
  rules["Cast"] = Cast;
  rules["Gather"] = Gather;
  rules["ReduceMean"] = ReduceMean;
  rules["ReduceSum"] = ReduceSum;
}

}  // namespace cohort
