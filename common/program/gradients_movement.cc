#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

absl::Status Identity(GradientSite& site) {
  site.Set(0, site.dy());
  return absl::OkStatus();
}

// Sets the gradient of Reshape or Flatten. Both keep the elements and their order, so the gradient
// is dy in the shape of the input.
absl::Status SameElements(GradientSite& site) {
  if (site.Wants(0)) site.Set(0, site.Cohort("ReshapeLike", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

// Sets the gradient of Transpose. Without the attribute perm, Transpose reverses the axes, and so
// does its gradient.
absl::Status Transpose(GradientSite& site) {
  const auto* perm = site.Attribute("perm");
  if (perm == nullptr) {
    site.Set(0, site.Onnx("Transpose", {site.dy()}));
    return absl::OkStatus();
  }
  std::vector<int64_t> inverse(static_cast<size_t>(perm->ints_size()));
  for (int i = 0; i < perm->ints_size(); ++i) {
    // The gradient of Transpose is a Transpose with the inverse permutation.
    inverse[static_cast<size_t>(perm->ints(i))] = i;
  }
  site.Set(0, site.Onnx("Transpose", {site.dy()}, {IntsAttribute("perm", inverse)}));
  return absl::OkStatus();
}

absl::Status Concat(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  const int count = site.node().input_size();
  // ConcatGrad reads only the shapes of Concat's inputs. These shapes may be unknown until the
  // graph runs.
  for (int i = 0; i < count; ++i) inputs.push_back(site.input(i));
  const auto pieces = site.builder().OpN(
      "ConcatGrad", inputs, count, {IntAttribute("axis", site.Int("axis", 0))}, kCohortDomain);
  for (int i = 0; i < count; ++i) {
    if (site.Wants(i)) site.Set(i, pieces[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

absl::Status Cast(GradientSite& site) {
  // The gradient of a Cast is cast back to the type of the Cast's input.
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

}  // namespace

void AddMovementGradients(GradientRules& rules) {
  rules["Identity"] = {Identity};
  rules["Reshape"] = {SameElements};
  rules["Flatten"] = {SameElements};
  rules["Transpose"] = {Transpose};
  rules["Concat"] = {Concat};
  rules["Cast"] = {Cast};
  rules["Gather"] = {Gather};
}

}  // namespace cohort
