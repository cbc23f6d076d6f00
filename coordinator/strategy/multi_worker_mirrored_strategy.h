#pragma once

// Synchronous training in all workers of the cluster, without parameter servers. Every worker's
// process is a home of every variable and runs a replica on each of strategy.devices; without a
// list on all its devices, which are as many in every worker (ClusterShape.devices). A step is a
// gang closure of all of them: the batch, which is the global one, is shared out over the replicas
// of all workers, their gradients are added up between the workers, and each worker makes the same
// update of its own variables. The number of replicas is that of workers times that of devices.
//
// Evaluation and prediction are closures of single workers, which all have the same values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Returns the number of the GPU by which each worker joins the others over NCCL, its first one;
// nothing if they do not use NCCL.
std::optional<int32_t> NcclDeviceOf(const StrategySpec& spec);

// Immutable; thread-safe.
class MultiWorkerMirroredStrategy final : public Strategy {
 public:
  // Errors: INVALID_ARGUMENT naming the field, the device that is none, a processor named twice, or
  // of a kind that the field does not take.
  static absl::StatusOr<std::unique_ptr<const Strategy>> Make(const StrategySpec& spec);

  absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                const ClusterShape& cluster) const override;
  absl::Status CheckCluster(const ClusterShape& cluster) const override;
  bool TakesAllDevices() const override { return devices_.empty(); }
  int64_t NumReplicasInSync(const ClusterShape& cluster) const override;

 private:
  MultiWorkerMirroredStrategy(std::vector<std::string> devices, std::string implementation,
                              proto::Communication communication)
      : devices_(std::move(devices)),
        implementation_(std::move(implementation)),
        communication_(std::move(communication)) {}
  absl::Status CheckImplementation(absl::Span<const std::string> devices) const;

  const std::vector<std::string> devices_;  // canonical, of the replicas of a worker; none: all
  const std::string implementation_;
  const proto::Communication communication_;
};

}  // namespace cohort
