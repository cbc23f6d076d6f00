#pragma once

// Synchronous training in all workers of the cluster, without parameter servers. Every worker's
// process is a home of every variable, and runs a replica on each of strategy.devices. If the job
// lists no devices, a worker runs a replica on each device that it has (ClusterShape.devices), and
// all workers must have the same devices. A step is a gang closure of all workers: the global batch
// is split among the replicas of all workers, their gradients are summed between the workers, and
// each worker makes the same update of its own variables. The number of replicas is the number of
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

// Returns the number of the first GPU of each worker, on which the workers sum over NCCL. Returns
// nothing if the job does not use NCCL.
std::optional<int32_t> NcclDeviceOf(const StrategySpec& spec);

// The strategy that trains in all workers. Immutable. Thread-safe.
class MultiWorkerMirroredStrategy final : public Strategy {
 public:
  // Makes the strategy. Errors: INVALID_ARGUMENT naming the field of the job, for a name that is
  // not a device's name, a processor that is named twice, or implementation 'nccl' on devices that
  // are not GPUs.
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

  // The canonical names of the devices, one per replica of a worker. If empty, all devices of each
  // worker.
  const std::vector<std::string> devices_;
  const std::string implementation_;
  const proto::Communication communication_;
};

}  // namespace cohort
