#include "common/checkpoint/object_graph.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "proto/object_graph.pb.h"

namespace cohort {

namespace {

constexpr size_t kGraphBytesMax = 256 << 20;
constexpr char kVariableValue[] = "VARIABLE_VALUE";
// Paths repeat the names of their edges. Real graphs have paths of a few times their size.
constexpr size_t kPathBytesPerByte = 16;
constexpr size_t kPathBytesMin = 1 << 20;

// Finds paths from the root, breadth first. Thread-compatible.
class PathFinder {
 public:
  PathFinder(const proto::TrackedObjectGraph& graph, size_t bytes_max)
      : graph_(graph), bytes_left_(bytes_max), paths_(static_cast<size_t>(graph.nodes_size())) {}

  absl::Status Find() {
    if (paths_.empty()) return absl::OkStatus();
    paths_[0] = "";
    std::vector<size_t> queue = {0};
    for (size_t next = 0; next < queue.size(); ++next) {
      const size_t parent = queue[next];
      for (const auto& child : graph_.nodes(static_cast<int>(parent)).children()) {
        const size_t node = static_cast<size_t>(child.node_id());
        if (paths_[node].has_value()) continue;
        std::string path = paths_[parent]->empty()
                               ? child.local_name()
                               : absl::StrCat(*paths_[parent], "/", child.local_name());
        if (path.size() > bytes_left_) return absl::InvalidArgumentError("paths without end");
        bytes_left_ -= path.size();
        paths_[node] = std::move(path);
        queue.push_back(node);
      }
    }
    return absl::OkStatus();
  }

  std::string PathTo(size_t node) const { return paths_[node].value_or(""); }

 private:
  const proto::TrackedObjectGraph& graph_;
  size_t bytes_left_;
  std::vector<std::optional<std::string>>
      paths_;  // by node; nothing for a node that was not reached
};

absl::Status CheckNode(const proto::TrackedObjectGraph& graph, int node) {
  if (node >= 0 && node < graph.nodes_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("node ", node, " of ", graph.nodes_size(), " in the object graph"));
}

absl::Status CheckNodes(const proto::TrackedObjectGraph& graph) {
  for (const proto::TrackedObject& object : graph.nodes()) {
    for (const auto& child : object.children()) {
      RETURN_IF_ERROR(CheckNode(graph, child.node_id()));
    }
    for (const auto& slot : object.slot_variables()) {
      for (const int node : {slot.original_variable_node_id(), slot.slot_variable_node_id()}) {
        RETURN_IF_ERROR(CheckNode(graph, node));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ObjectGraph> ParseObjectGraph(absl::string_view bytes) {
  proto::TrackedObjectGraph graph;
  if (bytes.size() > kGraphBytesMax ||
      !graph.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("the object graph is damaged");
  }
  RETURN_IF_ERROR(CheckNodes(graph));
  PathFinder paths(graph, kPathBytesMin + bytes.size() * kPathBytesPerByte);
  RETURN_IF_ERROR(paths.Find());
  ObjectGraph out;
  std::vector<std::optional<size_t>> value_of(static_cast<size_t>(graph.nodes_size()));
  for (int node = 0; node < graph.nodes_size(); ++node) {
    for (const auto& attribute : graph.nodes(node).attributes()) {
      if (attribute.name() != kVariableValue) continue;
      if (attribute.checkpoint_key().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " of the object graph has a value without a key"));
      }
      const size_t index = static_cast<size_t>(node);
      value_of[index] = out.values.size();
      out.values.push_back(
          {attribute.full_name(), attribute.checkpoint_key(), paths.PathTo(index)});
    }
  }
  for (const proto::TrackedObject& object : graph.nodes()) {
    for (const auto& slot : object.slot_variables()) {
      const auto variable = value_of[static_cast<size_t>(slot.original_variable_node_id())];
      const auto value = value_of[static_cast<size_t>(slot.slot_variable_node_id())];
      if (variable.has_value() && value.has_value()) {
        out.slots.push_back({*variable, *value, slot.slot_name()});
      }
    }
  }
  return out;
}

}  // namespace cohort
