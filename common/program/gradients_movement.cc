#include <utility>

#include "common/base/status.h"
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

// Sets the gradient of an operator whose gradient is `op` of dy, of x, which lends its shape, and
// of the operator's further inputs.
absl::Status Mirrored(GradientSite& site, const std::string& op, int inputs,
                      std::vector<onnx::AttributeProto> attributes = {}) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> names = {site.dy(), site.input(0)};
  for (int i = 1; i < inputs; ++i) names.push_back(site.input(i));
  // In ONNX, a node's list of inputs must not end with absent inputs.
  while (names.back().empty()) names.pop_back();
  site.Set(0, site.Cohort(op, std::move(names), std::move(attributes)));
  return absl::OkStatus();
}

absl::Status Slice(GradientSite& site) { return Mirrored(site, "SliceGrad", 5); }
absl::Status Tile(GradientSite& site) { return Mirrored(site, "TileGrad", 2); }

absl::Status GatherNd(GradientSite& site) {
  return Mirrored(site, "GatherNDGrad", 2, site.CopyAttributes({"batch_dims"}));
}

// Sets the gradients of Pad. Each dy belongs to an element of the data or to the constant, so the
// constant's gradient is what the data do not get of the sum of dy.
absl::Status Pad(GradientSite& site) {
  const auto attributes = site.CopyAttributes({"mode"});
  RETURN_IF_ERROR(Mirrored(site, "PadGrad", 2, attributes));
  if (!site.Wants(2)) return absl::OkStatus();
  const std::string kept =
      site.Wants(0) ? site.dx()[0]
                    : site.Cohort("PadGrad", {site.dy(), site.input(0), site.input(1)}, attributes);
  const auto sum = [&](const std::string& value) {
    return site.Onnx("ReduceSum", {value}, {IntAttribute("keepdims", 0)});
  };
  const std::string rest = site.Onnx("Sub", {sum(site.dy()), sum(kept)});
  site.Set(2, site.Cohort("ReshapeLike", {rest, site.input(2)}));
  return absl::OkStatus();
}

// Sets the gradient of Split: the parts' gradients side by side, with zeros for a part that the
// loss does not depend on.
absl::Status Split(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> parts;
  for (int i = 0; i < site.node().output_size(); ++i) {
    parts.push_back(site.dy(i).empty() ? site.Cohort("ZerosLike", {site.output(i)}) : site.dy(i));
  }
  site.Set(0, site.Onnx("Concat", std::move(parts), {IntAttribute("axis", site.Int("axis", 0))}));
  return absl::OkStatus();
}

absl::Status Expand(GradientSite& site) {
  if (site.Wants(0)) site.Set(0, site.Cohort("ReduceToShapeOf", {site.dy(), site.input(0)}));
  return absl::OkStatus();
}

// Sets the gradient of an operator that moves or drops elements of each line in a way that is its
// own inverse, or its own mask: the operator itself of dy.
absl::Status SameOfDy(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> inputs = {site.dy()};
  if (!site.input(1).empty()) inputs.push_back(site.input(1));
  site.Set(0, site.Onnx(site.node().op_type(), std::move(inputs),
                        site.CopyAttributes({"upper", "batch_axis", "time_axis"})));
  return absl::OkStatus();
}

absl::Status GatherElements(GradientSite& site) {
  if (!site.Wants(0)) return absl::OkStatus();
  const std::string zeros = site.Cohort("ZerosLike", {site.input(0)});
  // The gradients of an element that was taken several times add up.
  site.Set(0, site.Onnx("ScatterElements", {zeros, site.input(1), site.dy()},
                        {IntAttribute("axis", site.Int("axis", 0)),
                         StringAttribute("reduction", "add")}));
  return absl::OkStatus();
}

// Sets the gradients of ScatterElements or ScatterND, to which `gather` is the opposite operator.
// Replaced data get no gradient; added updates leave it to them. As in TensorFlow, every one of
// several updates of one place gets the place's gradient.
absl::Status Scatter(GradientSite& site, const std::string& gather,
                     const std::vector<onnx::AttributeProto>& attributes) {
  const onnx::AttributeProto* const reduction = site.Attribute("reduction");
  const std::string kind = reduction == nullptr ? "none" : reduction->s();
  if (kind != "none" && kind != "add") {
    return absl::InvalidArgumentError("only the reductions none and add have a gradient");
  }
  if (site.Wants(0)) {
    if (kind == "add") {
      site.Set(0, site.dy());
    } else {
      // The updates may have no gradient of their own, but they lend the zeros their shape.
      const std::string zeros = site.Cohort("ZerosLike", {site.input(2)});
      site.Set(0, site.Onnx(site.node().op_type(), {site.dy(), site.input(1), zeros}, attributes));
    }
  }
  if (site.Wants(2)) site.Set(2, site.Onnx(gather, {site.dy(), site.input(1)}, attributes));
  return absl::OkStatus();
}

absl::Status ScatterElements(GradientSite& site) {
  return Scatter(site, "GatherElements", {IntAttribute("axis", site.Int("axis", 0))});
}

absl::Status ScatterNd(GradientSite& site) { return Scatter(site, "GatherND", {}); }

}  // namespace

void AddMovementGradients(GradientRules& rules) {
  rules["Identity"] = {Identity};
  rules["Reshape"] = {SameElements};
  rules["Flatten"] = {SameElements};
  rules["Transpose"] = {Transpose};
  rules["Concat"] = {Concat};
  rules["Cast"] = {Cast};
  rules["Gather"] = {Gather};
  rules["Squeeze"] = {SameElements};
  rules["Unsqueeze"] = {SameElements};
  rules["Slice"] = {Slice};
  rules["Pad"] = {Pad};
  rules["Split"] = {Split};
  rules["Expand"] = {Expand};
  rules["Tile"] = {Tile};
  rules["Trilu"] = {SameOfDy};
  rules["ReverseSequence"] = {SameOfDy};
  rules["GatherElements"] = {GatherElements};
  rules["GatherND"] = {GatherNd};
  rules["ScatterElements"] = {ScatterElements};
  rules["ScatterND"] = {ScatterNd};
}

}  // namespace cohort
