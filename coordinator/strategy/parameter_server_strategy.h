#pragma once

// Parameter-server training: the partitioner cuts every variable into slices, and the placement
// policy deals the slices out to the parameter servers. Workers pull all slices and push gradients
// to each slice's home.

#include <memory>

#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class ParameterServerStrategy final : public Strategy {
 public:
  // Makes a strategy. Without a `partitioner` nothing is cut, unless the policy looks at sizes:
  // then TensorFlow's MinSizePartitioner cuts variables into at most as many shards as there are
  // parameter servers. The partitioner is shared with the variable creators that plans use.
  explicit ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner,
                                   PlacementPolicy policy = PlacementPolicy::kRoundRobin,
                                   CompressionSpec compression = {},
                                   ConsistencySpec consistency = {});

  // Makes a plan. Errors, beside those of Strategy: INVALID_ARGUMENT for a model whose replicas
  // exchange values while they compute, if a round has several replicas.
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
