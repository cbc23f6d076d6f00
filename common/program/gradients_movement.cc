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

// Sets the gradient of an operator on x to the result of the operator `op`. The inputs of `op` are
// dy, x (only for its shape), and the forward operator's further inputs.
absl::Status Mirrored(GradientSite& site, const std::string& op, int inputs,
                      std::vector<onnx::AttributeProto> attributes = {}) {
  if (!site.Wants(0)) return absl::OkStatus();
  std::vector<std::string> names = {site.dy(), site.input(0)};
  for (int i = 1; i < inputs; ++i) names.push_back(site.input(i));
  // ONNX does not allow absent inputs at the end of a node's list of inputs, so they are removed.
  while (names.back().empty()) names.pop_back();
  site.Set(0, site.Cohort(op, std::move(names), std::move(attributes)));
  return absl::OkStatus();
}

absl::Status Slice(GradientSite& site) { return Mirrored(site, "SliceGrad", 5); }
absl::Status Tile(GradientSite& site) { return Mirrored(site, "TileGrad", 2); }

absl::Status GatherNd(GradientSite& site) {
  return Mirrored(site, "GatherNDGrad", 2, site.CopyAttributes({"batch_dims"}));
}

// Sets the gradients of Pad. With the mode "constant", every element of the result is an element of
// the data or a copy of the constant. So the constant's gradient is the sum of all dy minus the sum
// of the data's gradient.
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

// Sets the gradient of Split to the concatenation of the gradients of its outputs. An output that
// does not influence the loss contributes zeros.
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

// Sets the gradient of ReverseSequence or Trilu by applying the same operator to dy.
// ReverseSequence is its own inverse, and Trilu sets the same elements to 0 in dy as in x.
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
  // If GatherElements took an element several times, the gradients of all copies are added up.
  site.Set(0, site.Onnx("ScatterElements", {zeros, site.input(1), site.dy()},
                        {IntAttribute("axis", site.Int("axis", 0)),
                         StringAttribute("reduction", "add")}));
  return absl::OkStatus();
}

// Sets the gradients of ScatterElements or ScatterND; `gather` is the operator that reads what the
// scatter writes. Data that an update replaces get a gradient of 0; with the reduction "add" the
// data get dy. As in TensorFlow, each of several updates of one place gets the full gradient of
// this place.
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
      // The zeros get the shape of the updates, which are read for their shape even if no gradient
      // of the updates is wanted.
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
