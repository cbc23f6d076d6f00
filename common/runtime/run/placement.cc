#include "common/runtime/run/placement.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/runtime/run/fusion.h"

namespace cohort {

namespace {

// Returns the name of a value's copy in the device's memory.
std::string DeviceName(const std::string& value) { return absl::StrCat(value, "@device"); }

// Chooses the device or the processor for each node of one graph. Lives for one call of PlaceNodes.
class Placer {
 public:
  Placer(const onnx::GraphProto& graph, const KernelRegistry& device)
      : graph_(graph), device_(device), types_(graph) {}

  PlacedGraph Run(const std::vector<onnx::NodeProto>& nodes, const std::vector<bool>& left_there) {
    for (const onnx::NodeProto& node : nodes) Place(node);
    std::vector<std::string> outputs;
    for (const onnx::ValueInfoProto& output : graph_.output()) outputs.push_back(output.name());
    // The graph's outputs are copied to the host after the last node, because each copy waits for
    // all posted work.
    for (const std::string& value : made_) {
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] != value) continue;
        if (i < left_there.size() && left_there[i]) {
          outputs[i] = DeviceName(value);
        } else {
          NeedOnHost(value);
        }
      }
    }
    return {std::move(placed_), std::move(outputs)};
  }

 private:
  // Returns the definition of the device's kernel that runs the node, or null if the node runs on
  // the processor.
  const KernelDefinition* OnDevice(const onnx::NodeProto& node) const {
    const KernelDefinition* const definition = device_.FindFor(node);
    if (definition == nullptr || !CheckArity(node, definition->signature).ok()) return nullptr;
    if (!LackingTypes(node, definition->signature, types_).empty()) return nullptr;
    // The device runs only nodes whose input types are all known. An input of unknown type could
    // turn out to have a type that the device's kernel lacks.
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i).empty()) continue;
      if (types_.dtype(node.input(i)) == DType::kUndefined) return nullptr;
    }
    if (definition->follows && (node.input_size() == 0 || !IsThere(node.input(0)))) return nullptr;
    if (definition->rank != KernelDefinition::kAnyRank &&
        types_.rank(node.input(0)) != definition->rank) {
      return nullptr;
    }
    return definition->make(node).ok() ? definition : nullptr;
  }

  bool IsThere(const std::string& value) const { return on_device_.count(value) > 0; }

  void Place(onnx::NodeProto node) {
    const KernelDefinition* const definition = OnDevice(node);
    // Copies an input if the node needs the input's value in one memory (host or device) and the
    // value is only in the other.
    for (int i = 0; i < node.input_size(); ++i) {
      std::string& input = *node.mutable_input(i);
      if (input.empty()) continue;
      const InputPlace place =
          definition == nullptr ? InputPlace::kHost : definition->place(static_cast<size_t>(i));
      const bool stays_there = place == InputPlace::kEither && IsThere(input);
      if (place == InputPlace::kHost) NeedOnHost(input);
      if (place == InputPlace::kDevice) NeedOnDevice(input);
      if (place == InputPlace::kDevice || stays_there) input = DeviceName(input);
    }
    // Renames each output that a device's kernel writes to the name of the value on the device.
    for (std::string& output : *node.mutable_output()) {
      if (definition == nullptr || definition->outputs_on_host || output.empty()) {
        on_host_.insert(output);
        continue;
      }
      on_device_.insert(output);
      made_.push_back(output);
      output = DeviceName(output);
    }
    placed_.push_back({std::move(node), definition != nullptr});
  }

  void NeedOnHost(const std::string& value) {
    if (IsThere(value) && on_host_.insert(value).second) {
      AddCopy(kToHost, DeviceName(value), value);
    }
  }
  // Adds a copy of the value to the device, unless the value is on the device already. A value that
  // no node has computed on the device is in host memory.
  void NeedOnDevice(const std::string& value) {
    if (!on_device_.insert(value).second) return;
    on_host_.insert(value);
    AddCopy(kToDevice, value, DeviceName(value));
  }

  void AddCopy(const char* op, const std::string& from, const std::string& to) {
    onnx::NodeProto copy;
    copy.set_domain(kRuntimeDomain);
    copy.set_op_type(op);
    copy.add_input(from);
    copy.add_output(to);
    placed_.push_back({std::move(copy), true});
  }

  const onnx::GraphProto& graph_;
  const KernelRegistry& device_;
  const ValueTypes types_;
  // The names in the graph of all values that are on the device; some of these values are in host
  // memory, too.
  std::set<std::string> on_device_;
  std::set<std::string> on_host_;
  std::vector<std::string> made_;  // values computed on the device, in the order of their nodes
  std::vector<PlacedNode> placed_;
};

}  // namespace

PlacedGraph PlaceNodes(const onnx::GraphProto& graph, const std::vector<onnx::NodeProto>& nodes,
                       const KernelRegistry& device, const std::vector<bool>& left_there) {
  return Placer(graph, device).Run(nodes, left_there);
}

}  // namespace cohort
