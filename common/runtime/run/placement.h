#pragma once

// The choice of the nodes of a program that run on a device. A node runs there if the device has a
// kernel for its types; all others stay on the processor, and a value that is needed on the other
// side is copied, once. A value keeps its name in host memory, so the graph's inputs and outputs
// do, and has another name on the device.

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

// Places `nodes`, which come in an order in which they can run, as do the returned ones: copies to
// the device come before the first node that needs them, and those of the graph's outputs at the
// end, because each copy to the host waits for all posted work. A node whose types are not all
// known stays on the processor, as does one whose rank is unknown but matters. `left_there` is
// DeviceTarget's.
PlacedGraph PlaceNodes(const onnx::GraphProto& graph, const std::vector<onnx::NodeProto>& nodes,
                       const KernelRegistry& device, const std::vector<bool>& left_there);

}  // namespace cohort
