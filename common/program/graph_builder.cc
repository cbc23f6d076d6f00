#include "common/program/graph_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/model_check.h"
#include "common/program/tensor_proto.h"

namespace cohort {

onnx::AttributeProto IntAttribute(const std::string& name, int64_t value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

onnx::AttributeProto IntsAttribute(const std::string& name, absl::Span<const int64_t> values) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return attribute;
}

onnx::AttributeProto FloatAttribute(const std::string& name, float value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

onnx::AttributeProto StringAttribute(const std::string& name, const std::string& value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
  return attribute;
}

GraphBuilder::GraphBuilder(const std::string& graph_name) {
  model_.mutable_graph()->set_name(graph_name);
}

GraphBuilder::GraphBuilder(onnx::ModelProto model) : model_(std::move(model)) {
  const onnx::GraphProto& graph = model_.graph();
  for (const auto& info : graph.input()) used_.insert(info.name());
  for (const auto& tensor : graph.initializer()) used_.insert(tensor.name());
  for (const auto& node : graph.node()) {
    used_.insert(node.name());
    used_.insert(node.output().begin(), node.output().end());
  }
}

std::string GraphBuilder::FreshName(const std::string& stem) {
  std::string name = stem;
  // next_ stores, for each stem (a name before a number is appended), the last number that was
  // appended. So making n names from one stem takes n steps in total.
  for (int64_t& next = next_[stem]; !used_.insert(name).second;) {
    name = absl::StrCat(stem, "_", ++next);
  }
  return name;
}

std::string GraphBuilder::Input(const std::string& name, DType dtype,
                                absl::Span<const int64_t> dims) {
  return Input(name, dtype, dims, "N");
}

std::string GraphBuilder::Input(const std::string& name, DType dtype,
                                absl::Span<const int64_t> dims, const std::string& symbol) {
  onnx::ValueInfoProto* input = model_.mutable_graph()->add_input();
  input->set_name(name);
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int32_t>(dtype));
  auto* shape = type->mutable_shape();
  for (const int64_t dim : dims) {
    if (dim < 0) {
      shape->add_dim()->set_dim_param(symbol);
    } else {
      shape->add_dim()->set_dim_value(dim);
    }
  }
  used_.insert(name);
  return name;
}

std::string GraphBuilder::Constant(const std::string& name, const Tensor& value) {
  const std::string fresh = FreshName(name);
  *model_.mutable_graph()->add_initializer() = ToTensorProto(fresh, value);
  return fresh;
}

std::string GraphBuilder::Op(const std::string& op, absl::Span<const std::string> inputs,
                             std::vector<onnx::AttributeProto> attributes,
                             const std::string& domain) {
  return OpN(op, inputs, 1, std::move(attributes), domain)[0];
}

std::vector<std::string> GraphBuilder::OpN(const std::string& op,
                                           absl::Span<const std::string> inputs, int num_outputs,
                                           std::vector<onnx::AttributeProto> attributes,
                                           const std::string& domain) {
  return OpSome(op, inputs, std::vector<bool>(static_cast<size_t>(num_outputs), true),
                std::move(attributes), domain);
}

std::vector<std::string> GraphBuilder::OpSome(const std::string& op,
                                              absl::Span<const std::string> inputs,
                                              const std::vector<bool>& wanted,
                                              std::vector<onnx::AttributeProto> attributes,
                                              const std::string& domain) {
  onnx::NodeProto* node = model_.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_domain(domain);
  node->set_name(FreshName(prefix_ + op));
  cohort::SetProductPrecision(precision_, *node);
  for (const std::string& input : inputs) node->add_input(input);
  for (onnx::AttributeProto& attribute : attributes) {
    *node->add_attribute() = std::move(attribute);
  }
  std::vector<std::string> outputs;
  for (size_t i = 0; i < wanted.size(); ++i) {
    // Outputs are named after their node, which makes errors about values readable.
    outputs.push_back(wanted[i] ? FreshName(absl::StrCat(node->name(), ":", i)) : "");
    node->add_output(outputs.back());
  }
  return outputs;
}

void GraphBuilder::Output(const std::string& value) {
  model_.mutable_graph()->add_output()->set_name(value);
}

void GraphBuilder::SetNamePrefix(const std::string& prefix) { prefix_ = prefix; }

absl::StatusOr<onnx::ModelProto> GraphBuilder::Finish() {
  // Finish completes a copy of the model, so that the caller can add more nodes and call Finish
  // again.
  onnx::ModelProto model = model_;
  model.set_ir_version(kOnnxIrVersion);
  model.set_producer_name("cohort");
  // The builder makes nodes only of ONNX's own domain and of the cohort domain, so the model
  // imports only these two.
  model.clear_opset_import();
  auto* onnx_opset = model.add_opset_import();
  onnx_opset->set_domain("");
  onnx_opset->set_version(kOnnxOpset);
  auto* cohort_opset = model.add_opset_import();
  cohort_opset->set_domain(kCohortDomain);
  cohort_opset->set_version(kCohortOpset);
  RETURN_IF_ERROR(Annotate(CheckAndInfer(model), absl::StrCat("graph ", model.graph().name())));
  return model;
}

}  // namespace cohort
