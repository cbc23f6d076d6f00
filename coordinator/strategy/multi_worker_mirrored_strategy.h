#pragma once

// Synchronous training in all workers of the cluster, without parameter servers. Every worker's
// process is a home of every variable and runs a replica on each of strategy.devices. Without such
// a list a worker runs a replica on each of its devices, whose number is the same in every worker
// (ClusterShape.devices). A step is a gang closure of all workers: the global batch is shared out
// over the replicas of all workers, their gradients are added up between the workers, and each
// worker makes the same update of its own variables. The number of replicas is the number of
// workers times the number of devices.
//
// Evaluation and prediction are closures of single workers, because all workers have the same
// values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Returns the number of each worker's first GPU, by which the workers join one another over NCCL,
// or nothing if they do not use NCCL.
std::optional<int32_t> NcclDeviceOf(const StrategySpec& spec);

// Immutable; thread-safe.
class MultiWorkerMirroredStrategy final : public Strategy {
 public:
  // Makes the strategy. Errors: INVALID_ARGUMENT naming the field, for a name that is not a
  // device's, a processor that is named twice, or a kind of device that the field does not take.
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

  // Canonical names of the devices, one for each replica of a worker; empty: all devices of the
  // worker.
  const std::vector<std::string> devices_;
  const std::string implementation_;
  const proto::Communication communication_;
};

}  // namespace cohort
