#pragma once

// Which nodes of a program run on a device. A node does whose kernel the device has, for its types;
// all others stay on the processor, and where a value is needed on the other side a copy is made,
// once. A value keeps its name in host memory, so the graph's inputs and outputs do, and has
// another on the device.

#include <string>
#include <vector>

#include "common/program/value_types.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Operators of kRuntimeDomain.
inline constexpr char kToDevice[] = "ToDevice";
inline constexpr char kToHost[] = "ToHost";

struct PlacedNode {
  onnx::NodeProto node;
  bool on_device = false;  // its kernel is the device's
};

struct PlacedGraph {
  std::vector<PlacedNode> nodes;
  std::vector<std::string> outputs;  // the values that the graph's outputs are
};

// `nodes` in an order in which they can run, and so are those given back: copies to the device
// come before the first that needs them, and those of the graph's outputs at the end, because each
// copy to the host waits for all that was posted. A node whose types are not all known, or whose
// rank is not where that matters, stays on the processor. `left_there` as DeviceTarget's.
PlacedGraph PlaceNodes(const onnx::GraphProto& graph, const std::vector<onnx::NodeProto>& nodes,
                       const KernelRegistry& device, const std::vector<bool>& left_there);

}  // namespace cohort
