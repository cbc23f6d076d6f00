#pragma once

// Rewrites of a graph that are made when the program is compiled. They change how a device
// computes, not what a program means. Fused nodes use operators of the domain "cohort.runtime", and
// only operators that the registry has, so a backend without these operators runs the unchanged
// graph.

#include <vector>

#include "common/runtime/kernel/kernel_registry.h"
#include "onnx/onnx_pb.h"

namespace cohort {

inline constexpr char kRuntimeDomain[] = "cohort.runtime";

// Replaces each sequence of nodes for which there is a fused operator by one fused node. The
// replaced nodes stay in `nodes` without inputs and outputs; the compiler drops them.
void FuseNodes(const onnx::GraphProto& graph, const KernelRegistry& registry,
               std::vector<onnx::NodeProto>& nodes);

}  // namespace cohort
