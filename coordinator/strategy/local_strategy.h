#pragma once

// Synchronous training in one worker, without parameter servers. The worker's process is the home
// of every variable, in one slice, and runs a replica on each device. In each step, the worker
// splits the batch among the replicas, sums their gradients and makes one update. Steps are gangs,
// so they run one after another. The values of strategy.type:
//
//   default          one replica on the worker's processor; takes no options
//   one_device       one replica on strategy.device, which keeps the variables
//   mirrored         a replica on each of strategy.devices, each with a copy of the variables
//   central_storage  a replica on each of strategy.compute_devices. The variables are on
//                    strategy.parameter_device alone; by default that is the GPU if exactly one
//                    GPU computes, else the processor
//
// Variables that are not on a single GPU are in the worker's memory, which all of its devices
// reach. So the copies of `mirrored` are in fact a single copy, and its plan is that of
// central_storage with the variables on the processor. If replicas are on GPUs, their gradients are
// summed there: for `mirrored` in the way of its cross_device_ops, for central_storage by a
// reduction to one device, as in TensorFlow. If the job lists no devices, replicas run on all
// devices of the worker (ClusterShape.devices).

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// The strategies that train in a single worker. Immutable. Thread-safe.
class LocalStrategy final : public Strategy {
 public:
  // Makes the strategy. Errors: INVALID_ARGUMENT naming the field of the job, for a name that is
  // not a device's name, a processor that is named twice, or cross_device_ops 'nccl' on devices
  // that are not GPUs.
  static absl::StatusOr<std::unique_ptr<const Strategy>> Make(const StrategySpec& spec);

  absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                const ClusterShape& cluster) const override;
  absl::Status CheckCluster(const ClusterShape& cluster) const override;
  bool TakesAllDevices() const override { return devices_.empty(); }
  int64_t NumReplicasInSync(const ClusterShape& cluster) const override;

 private:
  LocalStrategy(const StrategySpec& spec, std::vector<std::string> devices,
                std::string parameter_device)
      : type_(spec.type),
        cross_device_ops_(spec.cross_device_ops),
        num_packs_(spec.num_packs),
        devices_(std::move(devices)),
        parameter_device_(std::move(parameter_device)) {}
  absl::Status CheckCrossDeviceOps(absl::Span<const std::string> devices) const;
  // Returns the GPU that holds the variables, or "" if the processor's memory holds them.
  std::string ParameterGpu(absl::Span<const std::string> devices) const;
  void SetSums(proto::Replicas& replicas) const;

  const std::string type_;
  const std::string cross_device_ops_;  // the way of summing gradients; only `mirrored` uses it
  const int64_t num_packs_;             // number of packs of gradients; only `mirrored` uses it
  // The canonical names of the devices, one per replica. If empty, all devices of the worker.
  const std::vector<std::string> devices_;
  // The device that keeps the variables, in canonical form, or empty. Only central_storage uses it.
  const std::string parameter_device_;
};

}  // namespace cohort
