#pragma once

// The choice of the nodes that run on a device. A node runs on the device if the device has a
// kernel for the node's types; all other nodes stay on the processor. A value that is needed both
// in host memory and on the device is copied once. In host memory a value keeps its name, and so do
// the graph's inputs and outputs; on the device the value has another name.

#include <string>
#include <vector>

#include "common/program/value_types.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The two operators of kRuntimeDomain that copy a value: from host memory to the device, and from
// the device to host memory.
inline constexpr char kToDevice[] = "ToDevice";
inline constexpr char kToHost[] = "ToHost";

struct PlacedNode {
  onnx::NodeProto node;
  bool on_device = false;  // whether the node uses the device's kernel
};

struct PlacedGraph {
  std::vector<PlacedNode> nodes;
  std::vector<std::string> outputs;  // the names of the values that are the graph's outputs
};

// Chooses the device or the processor for each of `nodes` and adds copies. Both `nodes` and the
// returned nodes come in an order in which they can run. A copy to the device comes right before
// the first node that needs it. The copies of the graph's outputs come at the end, because each
// copy to the host waits for all posted work. A node stays on the processor if the type of an input
// is unknown, or if the device's kernel requires a certain rank and the first input is not known to
// have it. `left_there` is DeviceTarget::left_there.
PlacedGraph PlaceNodes(const onnx::GraphProto& graph, const std::vector<onnx::NodeProto>& nodes,
                       const KernelRegistry& device, const std::vector<bool>& left_there);

}  // namespace cohort
