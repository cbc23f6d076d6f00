#include "coordinator/model/onnx_export.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {
namespace {

// Describes the variable of a graph input. Errors: INVALID_ARGUMENT for an axis without a fixed
// size.
absl::StatusOr<ExportedVariable> VariableOf(const proto::InputBinding& binding,
                                            const onnx::ValueInfoProto& input) {
  ExportedVariable exported{binding.input(), binding.variable(), DType::kUndefined, Shape()};
  const onnx::TypeProto::Tensor& type = input.type().tensor_type();
  ASSIGN_OR_RETURN(exported.dtype, DTypeFromNumber(type.elem_type()));
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    if (!dim.has_dim_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", binding.variable(), "' has an axis of no fixed size, '",
                       dim.dim_param(), "'; a model holds whole values"));
    }
    dims.push_back(dim.dim_value());
  }
  exported.shape = Shape(dims);
  return exported;
}

// Checks that the graph has only operators that every ONNX runtime knows.
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

absl::StatusOr<OnnxExport> PlanOnnxExport(const proto::Program& predict) {
  OnnxExport exported;
  ASSIGN_OR_RETURN(exported.model, LoadProgram(predict));
  onnx::GraphProto& graph = *exported.model.mutable_graph();
  RETURN_IF_ERROR(CheckStandardOperators(graph));
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> batch_inputs;
  // Graph inputs and program bindings are in the same order.
  for (int i = 0; i < predict.inputs_size(); ++i) {
    const proto::InputBinding& binding = predict.inputs(i);
    if (binding.source_case() == proto::InputBinding::kBatchComponent) {
      *batch_inputs.Add() = graph.input(i);
      continue;
    }
    if (binding.source_case() != proto::InputBinding::kVariable) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", binding.input(), "' is neither batch nor variable; it cannot be exported"));
    }
    ASSIGN_OR_RETURN(ExportedVariable variable, VariableOf(binding, graph.input(i)));
    exported.variables.push_back(std::move(variable));
  }
  // A domain that no node uses is not imported, because some runtimes refuse a file with an unknown
  // domain.
  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports;
  for (const onnx::OperatorSetIdProto& import : exported.model.opset_import()) {
    if (import.domain().empty()) *imports.Add() = import;
  }
  *exported.model.mutable_opset_import() = std::move(imports);
  // libonnx checks the model here, where the variables are still inputs. Becoming initializers does
  // not change their types.
  RETURN_IF_ERROR(
      Annotate(LoadModel(exported.model.SerializeAsString()).status(), "the exported model"));
  *graph.mutable_input() = std::move(batch_inputs);
  return exported;
}

}  // namespace cohort
