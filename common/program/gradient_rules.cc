#include "common/program/gradient_rules.h"

#include <utility>

#include "common/base/check.h"
#include "common/program/cohort_ops.h"
#include "common/program/tensor_proto.h"

namespace cohort {

ForwardGraph::ForwardGraph(const onnx::ModelProto& model) : types_(model.graph()) {
  for (const auto& tensor : model.graph().initializer()) constants_[tensor.name()] = &tensor;
  for (const auto& node : model.graph().node()) {
    // The value of a Constant node is known like the value of a weight. The node holds the value in
    // the attribute "value".
    if (node.op_type() != "Constant" || !node.domain().empty()) continue;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "value") constants_[node.output(0)] = &attribute.t();
    }
  }
}

std::optional<std::vector<int64_t>> ForwardGraph::ConstantInts(const std::string& value) const {
  const auto it = constants_.find(value);
  if (it == constants_.end()) return std::nullopt;
  const auto tensor = FromTensorProto(*it->second);
  if (!tensor.ok()) return std::nullopt;
  if (tensor->dtype() == DType::kInt64) {
    const auto span = tensor->span<int64_t>();
    return std::vector<int64_t>(span.begin(), span.end());
  }
  if (tensor->dtype() == DType::kInt32) {
    const auto span = tensor->span<int32_t>();
    return std::vector<int64_t>(span.begin(), span.end());
  }
  return std::nullopt;
}

GradientSite::GradientSite(const onnx::NodeProto& node, const ForwardGraph& forward,
                           GraphBuilder& builder, std::vector<std::string> output_gradients,
                           std::vector<bool> wanted)
    : node_(node),
      forward_(forward),
      builder_(builder),
      dy_(std::move(output_gradients)),
      wanted_(std::move(wanted)),
      dx_(wanted_.size()) {}

const std::string& GradientSite::input(int i) const {
  // The empty name of an absent input is never destroyed, because gradient rules may run while the
  // process exits.
  static const std::string& absent = *new std::string;
  return i < node_.input_size() ? node_.input(i) : absent;
}

const std::string& GradientSite::output(int i) const {
  COHORT_CHECK(i < node_.output_size(), "the node has an output of this number");
  return node_.output(i);
}

bool GradientSite::Wants(int input) const {
  return static_cast<size_t>(input) < wanted_.size() && wanted_[static_cast<size_t>(input)];
}

const onnx::AttributeProto* GradientSite::Attribute(const std::string& name) const {
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t GradientSite::Int(const std::string& attribute, int64_t otherwise) const {
  const auto* found = Attribute(attribute);
  return found == nullptr ? otherwise : found->i();
}

float GradientSite::Float(const std::string& attribute, float otherwise) const {
  const auto* found = Attribute(attribute);
  return found == nullptr ? otherwise : found->f();
}

std::vector<onnx::AttributeProto> GradientSite::CopyAttributes(
    absl::Span<const std::string> names) const {
  std::vector<onnx::AttributeProto> copies;
  for (const std::string& name : names) {
    if (const auto* found = Attribute(name)) copies.push_back(*found);
  }
  return copies;
}

std::string GradientSite::Onnx(const std::string& op, std::vector<std::string> inputs,
                               std::vector<onnx::AttributeProto> attributes) {
  return builder_.Op(op, inputs, std::move(attributes));
}

std::string GradientSite::Cohort(const std::string& op, std::vector<std::string> inputs,
                                 std::vector<onnx::AttributeProto> attributes) {
  return builder_.Op(op, inputs, std::move(attributes), kCohortDomain);
}

std::string GradientSite::Scalar(double value) {
  // ONNX's operators do not mix types, so the scalar has the element type of what it meets.
  return builder_.Constant("gradient/" + node_.name() + "/scalar",
                           forward_.types().dtype(output(0)) == DType::kFloat64
                               ? Tensor::Scalar<double>(value)
                               : Tensor::Scalar<float>(static_cast<float>(value)));
}

std::string GradientSite::Int64s(absl::Span<const int64_t> values) {
  const std::vector<int64_t> copy(values.begin(), values.end());
  return builder_.Constant("gradient/" + node_.name() + "/shape",
                           Tensor::FromVector(copy, {static_cast<int64_t>(copy.size())}));
}

void GradientSite::Set(int input, const std::string& gradient) {
  COHORT_CHECK(Wants(input), "a rule sets only gradients that are wanted");
  dx_[static_cast<size_t>(input)] = gradient;
}

void GradientSite::SetReduced(int input, const std::string& gradient) {
  const std::string& like = this->input(input);
  // The node ReduceToShapeOf is left out only if shape inference proves that the gradient already
  // has the input's shape. If the shapes turn out to be equal at run time, the node does nothing.
  const bool same = forward_.types().SameShape(like, output(0));
  Set(input, same ? gradient : Cohort("ReduceToShapeOf", {gradient, like}));
}

}  // namespace cohort
