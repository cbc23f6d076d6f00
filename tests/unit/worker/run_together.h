#pragma once

// Replicas of a graph that take turns on one thread and meet.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/program/gradients.h"
#include "common/tensor/tensor.h"

namespace cohort {

using ReplicaOutputs = std::vector<absl::StatusOr<std::vector<Tensor>>>;

// Replica i with inputs[i] and shares[i] (replica_exchange.h), on the reference kernels.
ReplicaOutputs RunTogether(const onnx::ModelProto& model,
                           const std::vector<std::vector<Tensor>>& inputs,
                           const std::vector<double>& shares);

// The same replicas on several workers of one group, so many on each. A worker with none computes
// what the last replica does, and does not count; its outputs come behind those of all others. The
// seed draws the order of events.
ReplicaOutputs RunOnWorkers(const onnx::ModelProto& model,
                            const std::vector<std::vector<Tensor>>& inputs,
                            const std::vector<double>& shares, absl::Span<const size_t> workers,
                            uint64_t seed);

// x of rank 2 one behind the other along `axis`, and the gradient of sum(gathered * dy) by x.
// Outputs: what is gathered, that sum, and the gradient.
absl::StatusOr<GradientGraph> GatherGraph(int64_t axis);

}  // namespace cohort
