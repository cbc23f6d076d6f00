#pragma once

// Synchronous training in one worker, without parameter servers. The worker's process is the home
// of every variable, in one slice, and runs a replica on each device: the worker shares the batch
// out over the replicas, joins their gradients and makes one update in each step. Steps are gangs,
// so they run one after another.
//
//   default          one replica on the worker's processor; takes no options
//   one_device       one replica on strategy.device, which keeps the variables
//   mirrored         a replica on each of strategy.devices, each with a copy of the variables
//   central_storage  a replica on each of strategy.compute_devices. The variables are on
//                    strategy.parameter_device alone; by default that is the GPU if exactly one
//                    GPU computes, else the processor
//
// Variables that are not on one GPU are in the worker's memory, which all its devices reach. So the
// copies of `mirrored` are a single one, and its plan is that of central_storage with the variables
// on the processor. If replicas are on GPUs, their gradients are added up there: for `mirrored` by
// its cross_device_ops, for central_storage by a reduction to one device, as in TensorFlow. Without
// a list of devices, replicas run on all devices of the worker (ClusterShape.devices).

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class LocalStrategy final : public Strategy {
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
  LocalStrategy(const StrategySpec& spec, std::vector<std::string> devices,
                std::string parameter_device)
      : type_(spec.type),
        cross_device_ops_(spec.cross_device_ops),
        num_packs_(spec.num_packs),
        devices_(std::move(devices)),
        parameter_device_(std::move(parameter_device)) {}
  absl::Status CheckCrossDeviceOps(absl::Span<const std::string> devices) const;
  // Returns the GPU whose memory holds the variables, or "" if they are in the processor's memory.
  std::string ParameterGpu(absl::Span<const std::string> devices) const;
  void SetSums(proto::Replicas& replicas) const;

  const std::string type_;
  const std::string cross_device_ops_;  // the way of summing gradients; only for `mirrored`
  const int64_t num_packs_;             // number of packs of gradients; only for `mirrored`
  // Canonical names of the devices, one for each replica; empty: all devices of the worker.
  const std::vector<std::string> devices_;
  const std::string parameter_device_;  // canonical name; only for central_storage; may be empty
};

}  // namespace cohort
