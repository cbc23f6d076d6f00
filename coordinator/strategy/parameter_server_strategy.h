#pragma once

// Asynchronous parameter-server training: every variable is cut by the partitioner and its slices
// are dealt out to the parameter servers by the placement policy; workers pull all slices and push
// gradients to each slice's home.

#include <memory>

#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class ParameterServerStrategy final : public Strategy {
 public:
  // Makes a strategy. Without a `partitioner` nothing is cut, unless the policy looks at sizes; it
  // gets pieces to share out by TensorFlow's MinSizePartitioner with as many shards as there are
  // parameter servers. Shared with the variable creators that plans use.
  explicit ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner,
                                   PlacementPolicy policy = PlacementPolicy::kRoundRobin,
                                   CompressionSpec compression = {},
                                   ConsistencySpec consistency = {});

  // Errors also: INVALID_ARGUMENT for a model whose replicas exchange values while they compute, if
  // a round has several.
  absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                const ClusterShape& cluster) const override;
  absl::Status CheckCluster(const ClusterShape& cluster) const override;
  bool TakesAllDevices() const override { return false; }
  int64_t NumReplicasInSync(const ClusterShape& cluster) const override;

 private:
  const std::shared_ptr<const Partitioner> partitioner_;
  const PlacementPolicy policy_;
  const CompressionSpec compression_;
  const ConsistencySpec consistency_;
};

}  // namespace cohort
