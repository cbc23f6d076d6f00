#pragma once

// Rewrites that only a runtime cares about, made when a program is compiled: they change how a
// device computes, not what a program means. They use operators of the domain "cohort.runtime", and
// only those that the registry has, so a backend without them runs the plain graph.

#include <vector>

#include "common/runtime/kernel/kernel_registry.h"
#include "onnx/onnx_pb.h"

namespace cohort {

inline constexpr char kRuntimeDomain[] = "cohort.runtime";

// Nodes that others stand for stay in `nodes` without outputs; the compiler drops them.
void FuseNodes(const onnx::GraphProto& graph, const KernelRegistry& registry,
               std::vector<onnx::NodeProto>& nodes);

}  // namespace cohort
