#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/program/program.h"
#include "common/program/value_types.h"

namespace cohort {
namespace {

constexpr int kListedMax = 8;  // how many elements of a list attribute are shown

template <typename List>
std::string ListText(const List& list) {
  std::string text = "[";
  for (int i = 0; i < list.size() && i < kListedMax; ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", list.Get(i));
  }
  return text + (list.size() > kListedMax ? ",...]" : "]");
}

// Returns an attribute as "name=value"; tensors and graphs are shown as "...".
std::string AttributeText(const onnx::AttributeProto& attribute) {
  const std::string head = attribute.name() + "=";
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return absl::StrCat(head, attribute.i());
    case onnx::AttributeProto::FLOAT:
      return absl::StrCat(head, attribute.f());
    case onnx::AttributeProto::STRING:
      return absl::StrCat(head, "\"", attribute.s(), "\"");
    case onnx::AttributeProto::INTS:
      return head + ListText(attribute.ints());
    case onnx::AttributeProto::FLOATS:
      return head + ListText(attribute.floats());
    case onnx::AttributeProto::STRINGS:
      return head + ListText(attribute.strings());
    default:
      return head + "...";
  }
}

// Returns a value's name and type, such as "%x float32[N,784]".
std::string Typed(const std::string& value, const ValueTypes& types) {
  return absl::StrCat("%", value, " ", TypeText(types.Find(value)));
}

// Returns one node as a line of text, with its name as a comment at the end.
std::string NodeText(const onnx::NodeProto& node, const ValueTypes& types) {
  const auto named = [](std::string* out, const std::string& value) {
    absl::StrAppend(out, value.empty() ? "" : "%", value);
  };
  std::string text = "  ";
  for (int i = 0; i < node.output_size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", Typed(node.output(i), types));
  }
  absl::StrAppend(&text, node.output_size() > 0 ? " = " : "",
                  node.domain().empty() ? "onnx" : node.domain(), ".", node.op_type(), "(",
                  absl::StrJoin(node.input(), ", ", named), ")");
  if (node.attribute_size() > 0) {
    const auto attribute = [](std::string* out, const onnx::AttributeProto& each) {
      out->append(AttributeText(each));
    };
    absl::StrAppend(&text, " {", absl::StrJoin(node.attribute(), ", ", attribute), "}");
  }
  return absl::StrCat(text, "  # ", node.name(), "\n");
}

std::string SourceText(const proto::InputBinding& binding) {
  switch (binding.source_case()) {
    case proto::InputBinding::kBatchComponent:
      return absl::StrCat("batch component ", binding.batch_component());
    case proto::InputBinding::kVariable:
      return absl::StrCat("variable ", binding.variable());
    case proto::InputBinding::kArgument:
      return absl::StrCat(binding.of_replica() ? "row of argument " : "argument ",
                          binding.argument());
    case proto::InputBinding::kContext:
      return absl::StrCat("context ", proto::ContextValue_Name(binding.context()));
    case proto::InputBinding::SOURCE_NOT_SET:
      break;
  }
  return "nothing";
}

std::string SinkText(const proto::OutputBinding& binding) {
  switch (binding.sink_case()) {
    case proto::OutputBinding::kFetch:
      return "fetch";
    case proto::OutputBinding::kPush:
      return absl::StrCat("push ", binding.push());
    case proto::OutputBinding::kAssign:
      return absl::StrCat("assign ", binding.assign());
    case proto::OutputBinding::SINK_NOT_SET:
      break;
  }
  return "nothing";
}

}  // namespace

std::string ProgramText(const proto::Program& program) {
  std::string text = absl::StrCat("program ", program.name(), "\n");
  const auto model = LoadModel(program.model());
  // The text is meant for people, so the error of a bad model becomes a part of the text.
  if (!model.ok()) return absl::StrCat(text, "  no model: ", model.status().message(), "\n");
  const onnx::GraphProto& graph = model->graph();
  const ValueTypes types(graph);
  for (int i = 0; i < graph.input_size(); ++i) {
    absl::StrAppend(&text, "  input ", Typed(graph.input(i).name(), types), " <- ",
                    i < program.inputs_size() ? SourceText(program.inputs(i)) : "nothing", "\n");
  }
  for (const auto& tensor : graph.initializer()) {
    absl::StrAppend(&text, "  weight ", Typed(tensor.name(), types), "\n");
  }
  for (const auto& node : graph.node()) text += NodeText(node, types);
  for (int i = 0; i < graph.output_size(); ++i) {
    absl::StrAppend(&text, "  output ", Typed(graph.output(i).name(), types), " -> ",
                    i < program.outputs_size() ? SinkText(program.outputs(i)) : "nothing", "\n");
  }
  return text;
}

}  // namespace cohort
