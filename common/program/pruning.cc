#include "common/program/pruning.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/model_check.h"

namespace cohort {
namespace {

// What a node reads, with what its subgraphs capture from outside (and, harmlessly, their own
// values).
void AddReads(const onnx::NodeProto& node, std::set<std::string>& reads) {
  reads.insert(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    for (const auto& inner : attribute.g().node()) AddReads(inner, reads);
    for (const auto& output : attribute.g().output()) reads.insert(output.name());
  }
}

bool Makes(const onnx::NodeProto& node, const std::set<std::string>& needed) {
  for (const auto& output : node.output()) {
    if (!output.empty() && needed.count(output) > 0) return true;
  }
  return false;
}

// Keeps the elements for which `keep` says so, in order.
template <typename List, typename Keep>
void Filter(List* list, const Keep& keep) {
  List kept;
  for (auto& element : *list) {
    if (keep(element)) *kept.Add() = std::move(element);
  }
  list->Swap(&kept);
}

absl::Status CheckOutputs(const onnx::GraphProto& graph, absl::Span<const std::string> outputs) {
  std::set<std::string> known;
  for (const auto& input : graph.input()) known.insert(input.name());
  for (const auto& tensor : graph.initializer()) known.insert(tensor.name());
  for (const auto& node : graph.node()) known.insert(node.output().begin(), node.output().end());
  std::vector<std::string> unknown;
  for (const std::string& output : outputs) {
    if (output.empty() || known.count(output) == 0) unknown.push_back(output);
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("graph ", graph.name(), " has no value \"",
                                                 absl::StrJoin(unknown, "\", \""), "\""));
}

}  // namespace

absl::StatusOr<onnx::ModelProto> ExtractSubgraph(const onnx::ModelProto& model,
                                                 absl::Span<const std::string> outputs) {
  RETURN_IF_ERROR(CheckOutputs(model.graph(), outputs));
  onnx::ModelProto part = model;
  onnx::GraphProto& graph = *part.mutable_graph();
  std::set<std::string> needed(outputs.begin(), outputs.end());
  std::vector<bool> kept(static_cast<size_t>(graph.node_size()));
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    if (!Makes(graph.node(i), needed)) continue;
    kept[static_cast<size_t>(i)] = true;
    AddReads(graph.node(i), needed);
  }
  size_t position = 0;
  Filter(graph.mutable_node(), [&](const auto&) { return kept[position++]; });
  const auto is_needed = [&](const auto& value) { return needed.count(value.name()) > 0; };
  Filter(graph.mutable_input(), is_needed);
  Filter(graph.mutable_initializer(), is_needed);
  graph.clear_value_info();
  graph.clear_output();
  for (const std::string& output : outputs) graph.add_output()->set_name(output);
  RETURN_IF_ERROR(Annotate(CheckAndInfer(part), absl::StrCat("part of graph ", graph.name())));
  return part;
}

}  // namespace cohort
