#pragma once

// Training with parameter servers. The partitioner cuts every variable into pieces, and the
// placement policy chooses a parameter server for each piece. Workers pull the values of variables,
// and push gradients to the parameter servers.

#include <memory>

#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// The strategy that keeps variables on parameter servers. Immutable. Thread-safe.
class ParameterServerStrategy final : public Strategy {
 public:
  // Makes the strategy. If `partitioner` is null, variables are not cut, except with a policy that
  // looks at sizes: then TensorFlow's MinSizePartitioner cuts each variable into at most as many
  // pieces as there are parameter servers. Plans share the ownership of the partitioner.
  explicit ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner,
                                   PlacementPolicy policy = PlacementPolicy::kRoundRobin,
                                   CompressionSpec compression = {},
                                   ConsistencySpec consistency = {});

  // Makes a plan. Errors: those of Strategy::MakePlan; INVALID_ARGUMENT for a model whose replicas
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
