#pragma once

// Asynchronous parameter-server training: every variable is cut by the partitioner and its slices
// are dealt out to the parameter servers in turn; workers pull all slices and push gradients to
// each slice's home.

#include <memory>

#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class ParameterServerStrategy final : public Strategy {
 public:
  // `partitioner` may be nullptr. Shared with the variable creators that plans use.
  explicit ParameterServerStrategy(std::shared_ptr<const Partitioner> partitioner);

  absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                const ClusterShape& cluster) const override;
  int64_t NumReplicasInSync(const ClusterShape& cluster) const override;

 private:
  const std::shared_ptr<const Partitioner> partitioner_;
};

}  // namespace cohort
