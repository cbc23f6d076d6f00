#include "coordinator/model/onnx_export.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {
namespace {

absl::Status CheckValue(const onnx::ValueInfoProto& input, const std::string& variable,
                        const Tensor& value) {
  const onnx::TypeProto::Tensor& type = input.type().tensor_type();
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) dims.push_back(dim.dim_value());
  if (type.elem_type() == static_cast<int32_t>(value.dtype()) && Shape(dims) == value.shape()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the value of variable '", variable, "' is ",
                                                 value.TypeString(), ", but the program reads ",
                                                 Shape(dims).ToString()));
}

absl::Status CheckStandardOperators(const onnx::GraphProto& graph) {
  std::vector<std::string> offenders;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.domain().empty()) continue;
    offenders.push_back(absl::StrCat(node.name(), " (", node.domain(), ".", node.op_type(), ")"));
  }
  if (offenders.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an exported model may use ONNX's own operators only, but it has ",
                   absl::StrJoin(offenders, ", ")));
}

}  // namespace

absl::StatusOr<onnx::ModelProto> ExportOnnx(const proto::Program& predict,
                                            const std::map<std::string, Tensor>& values) {
  ASSIGN_OR_RETURN(onnx::ModelProto model, LoadProgram(predict));
  onnx::GraphProto& graph = *model.mutable_graph();
  RETURN_IF_ERROR(CheckStandardOperators(graph));
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> batch_inputs;
  for (int i = 0; i < predict.inputs_size(); ++i) {
    const proto::InputBinding& binding = predict.inputs(i);
    onnx::ValueInfoProto* input = graph.mutable_input(i);
    if (binding.source_case() == proto::InputBinding::kBatchComponent) {
      *batch_inputs.Add() = std::move(*input);
      continue;
    }
    if (binding.source_case() != proto::InputBinding::kVariable) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", binding.input(), "' is neither batch nor variable; it cannot be exported"));
    }
    const auto value = values.find(binding.variable());
    if (value == values.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no value is given for variable '", binding.variable(), "'"));
    }
    RETURN_IF_ERROR(CheckValue(*input, binding.variable(), value->second));
    *graph.add_initializer() = ToTensorProto(binding.input(), value->second);
  }
  *graph.mutable_input() = std::move(batch_inputs);
  // Importing a domain that no node uses would make other runtimes refuse the file.
  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (import.domain().empty()) *imports.Add() = import;
  }
  *model.mutable_opset_import() = std::move(imports);
  RETURN_IF_ERROR(Annotate(LoadModel(model.SerializeAsString()).status(), "the exported model"));
  return model;
}

}  // namespace cohort
