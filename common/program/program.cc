#include "common/program/program.h"

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/model_check.h"
#include "common/program/value_types.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx/version_converter/convert.h"

namespace cohort {

namespace {

// Returns the first eight bytes of `bytes` as a little-endian number on every machine. Missing
// bytes count as 0.
uint64_t Word(absl::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i) {
    word |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

// Returns 128 bits of hash of `bytes` as 32 hexadecimal digits, the same on every machine. The hash
// does not resist a deliberate search for collisions.
std::string ContentHash(absl::string_view bytes) {
  // The hash consists of two chains of Mix64 with different starts. Each word of `bytes` enters
  // both chains, and each chain also depends on the other chain. The length of `bytes` enters
  // first, so padding with zeros changes the hash.
  uint64_t a = Mix64(bytes.size() + 0x9e3779b97f4a7c15u);
  uint64_t b = Mix64(bytes.size() ^ 0xc2b2ae3d27d4eb4fu);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = Word(bytes.substr(at));
    a = Mix64(a ^ word) + b;
    b = Mix64(b + (word * 0x9e3779b97f4a7c15u)) ^ (a << 1);
  }
  a = Mix64(a ^ (b >> 7));
  b = Mix64(b + a);
  return absl::StrFormat("%016x%016x", a, b);
}

// The oldest ONNX opset that libonnx's converter can convert to kOnnxOpset.
constexpr int kOldestOnnxOpset = 7;

// Replaces the domain "ai.onnx" by "", a second name of ONNX's own domain, so that later code need
// know only "".
void NormaliseDomains(onnx::GraphProto& graph) {
  for (auto& node : *graph.mutable_node()) {
    if (node.domain() == "ai.onnx") node.set_domain("");
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) NormaliseDomains(*attribute.mutable_g());
      for (auto& subgraph : *attribute.mutable_graphs()) NormaliseDomains(subgraph);
    }
  }
}

// Returns the version of ONNX's opset that the model imports. Errors: INVALID_ARGUMENT if the model
// imports a domain twice, another version of the cohort domain, or an ONNX opset that is missing or
// not supported.
absl::StatusOr<int> OnnxOpset(onnx::ModelProto& model) {
  std::map<std::string, int64_t> versions;
  for (auto& import : *model.mutable_opset_import()) {
    if (import.domain() == "ai.onnx") import.set_domain("");
    if (!versions.emplace(import.domain(), import.version()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model imports two opsets of domain \"", import.domain(), "\""));
    }
  }
  const auto cohort = versions.find(kCohortDomain);
  if (cohort != versions.end() && cohort->second != kCohortOpset) {
    return absl::InvalidArgumentError(absl::StrCat("the model needs opset ", cohort->second,
                                                   " of domain cohort, this program has ",
                                                   kCohortOpset));
  }
  const auto onnx = versions.find("");
  if (onnx == versions.end()) return absl::InvalidArgumentError("the model imports no ONNX opset");
  if (onnx->second < kOldestOnnxOpset || onnx->second > kOnnxOpset) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model is of ONNX opset ", onnx->second, ", supported are ",
                     kOldestOnnxOpset, " to ", kOnnxOpset, ": export it with opset ", kOnnxOpset));
  }
  return static_cast<int>(onnx->second);
}

// Removes the weights from the graph inputs. Before IR version 4, ONNX listed every weight as an
// input too, so that a caller could replace the weight's value. Cohort does not let a caller
// replace a weight.
void DropWeightInputs(onnx::GraphProto& graph) {
  std::set<std::string> weights;
  for (const auto& tensor : graph.initializer()) weights.insert(tensor.name());
  auto* inputs = graph.mutable_input();
  // Inputs are deleted from the end, because a deletion changes the positions of all later inputs.
  for (int i = inputs->size() - 1; i >= 0; --i) {
    if (weights.count(inputs->Get(i).name()) > 0) inputs->DeleteSubrange(i, 1);
  }
}

// Converts a model of an older ONNX opset to kOnnxOpset with libonnx's converter.
absl::Status ConvertToCurrentOpset(onnx::ModelProto& model) {
  try {
    // Some of libonnx's converters need shapes, such as the one for Softmax from opset 12 to 13.
    onnx::shape_inference::InferShapes(model);
    model = onnx::version_conversion::ConvertVersion(model, kOnnxOpset);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("converting the model to ONNX opset ", kOnnxOpset, ": ", error.what()));
  }
  NameNodes(*model.mutable_graph());
  return absl::OkStatus();
}

absl::Status BindingError(absl::string_view kind, const std::string& name,
                          absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(kind, " \"", name, "\": ", reason));
}

// Checks that the graph input bound to a context value (such as the step number) has the type of
// that value.
absl::Status CheckContextType(const onnx::ValueInfoProto& input, proto::ContextValue value) {
  const auto& type = input.type().tensor_type();
  const int need = value == proto::TRAINING ? onnx::TensorProto::BOOL : onnx::TensorProto::INT64;
  if (value < proto::STEP || value > proto::TRAINING) {
    return BindingError("input", input.name(), absl::StrCat("unknown context value ", value));
  }
  if (type.elem_type() != need || type.shape().dim_size() != 0) {
    return BindingError("input", input.name(),
                        absl::StrCat("context value ", proto::ContextValue_Name(value), " is a ",
                                     value == proto::TRAINING ? "bool" : "int64", " scalar"));
  }
  return absl::OkStatus();
}

// Checks that the bindings match the graph's inputs one by one, in order.
absl::Status CheckInputs(const proto::Program& program, const onnx::GraphProto& graph) {
  if (program.inputs_size() != graph.input_size()) {
    return absl::InvalidArgumentError(absl::StrCat(program.inputs_size(), " input bindings for ",
                                                   graph.input_size(), " graph inputs"));
  }
  std::set<std::string> variables;
  for (int i = 0; i < graph.input_size(); ++i) {
    const auto& input = graph.input(i);
    const auto& binding = program.inputs(i);
    if (binding.input() != input.name()) {
      return BindingError("input", input.name(),
                          absl::StrCat("binding ", i, " is for \"", binding.input(), "\""));
    }
    if (binding.source_case() == proto::InputBinding::SOURCE_NOT_SET) {
      return BindingError("input", input.name(), "it is bound to nothing");
    }
    if (binding.has_variable() && !variables.insert(binding.variable()).second) {
      return BindingError("input", input.name(),
                          absl::StrCat("variable \"", binding.variable(), "\" is bound twice"));
    }
    if (binding.has_context()) RETURN_IF_ERROR(CheckContextType(input, binding.context()));
  }
  return absl::OkStatus();
}

// Checks that the bindings match the graph's outputs one by one, in order.
absl::Status CheckOutputs(const proto::Program& program, const onnx::GraphProto& graph) {
  if (program.outputs_size() != graph.output_size()) {
    return absl::InvalidArgumentError(absl::StrCat(program.outputs_size(), " output bindings for ",
                                                   graph.output_size(), " graph outputs"));
  }
  std::set<std::string> changed;
  for (int i = 0; i < graph.output_size(); ++i) {
    const auto& name = graph.output(i).name();
    const auto& binding = program.outputs(i);
    if (binding.output() != name) {
      return BindingError("output", name,
                          absl::StrCat("binding ", i, " is for \"", binding.output(), "\""));
    }
    if (binding.sink_case() == proto::OutputBinding::SINK_NOT_SET) {
      return BindingError("output", name, "it is bound to nothing");
    }
    const std::string& variable = binding.has_push() ? binding.push() : binding.assign();
    // Two changes of one variable in one step would have no defined order, so such a program is
    // refused.
    if (!variable.empty() && !changed.insert(variable).second) {
      return BindingError("output", name,
                          absl::StrCat("variable \"", variable, "\" is changed twice"));
    }
  }
  return absl::OkStatus();
}

// A KernelProblems function that accepts every node, for a caller that does not run the program.
std::vector<std::string> AnyKernel(const onnx::NodeProto&, const ValueTypes&) { return {}; }

// Parses, checks and converts a model and infers its types. Errors also list the nodes that cannot
// run, with the reasons that `kernel_problems` returns.
absl::StatusOr<onnx::ModelProto> LoadModelToRun(absl::string_view serialized,
                                                KernelProblems kernel_problems) {
  RETURN_IF_ERROR(RegisterCohortSchemas());
  onnx::ModelProto model;
  if (serialized.size() > kModelBytesMax ||
      !model.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("these ", serialized.size(), " bytes are not an ONNX model"));
  }
  if (!model.has_graph()) return absl::InvalidArgumentError("the ONNX model has no graph");
  ASSIGN_OR_RETURN(const int opset, OnnxOpset(model));
  NormaliseDomains(*model.mutable_graph());
  NameNodes(*model.mutable_graph());
  // The nodes are checked before the conversion, so that errors name the nodes of the caller's own
  // model.
  RETURN_IF_ERROR(CheckNodes(model, kernel_problems));
  if (opset < kOnnxOpset) RETURN_IF_ERROR(ConvertToCurrentOpset(model));
  DropWeightInputs(*model.mutable_graph());
  // A model of a later IR version can contain new types, which CheckNodes has refused, and
  // metadata, which Cohort does not read. So the model can be declared to have the older version
  // kOnnxIrVersion.
  model.set_ir_version(kOnnxIrVersion);
  RETURN_IF_ERROR(CheckAndInfer(model, kernel_problems));
  return model;
}

}  // namespace

std::string ProgramId(const proto::Program& program) {
  // The message Program has no maps and no unknown fields, so equal programs have equal serialized
  // forms.
  return ContentHash(program.SerializeAsString());
}

absl::StatusOr<onnx::ModelProto> LoadModel(absl::string_view serialized) {
  return LoadModelToRun(serialized, AnyKernel);
}

absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program) {
  return LoadProgram(program, AnyKernel);
}

absl::StatusOr<onnx::ModelProto> LoadProgram(const proto::Program& program,
                                             KernelProblems kernel_problems) {
  const std::string context = absl::StrCat("program \"", program.name(), "\"");
  auto model = LoadModelToRun(program.model(), kernel_problems);
  if (!model.ok()) return Annotate(model.status(), context);
  RETURN_IF_ERROR(Annotate(CheckInputs(program, model->graph()), context));
  RETURN_IF_ERROR(Annotate(CheckOutputs(program, model->graph()), context));
  return model;
}

}  // namespace cohort
