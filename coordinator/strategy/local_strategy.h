#pragma once

// Synchronous training in one worker, without parameter servers. The worker's process is the home
// of every variable, in one slice, and runs a replica on each device: it shares the batch out over
// them, joins their gradients and makes one update of each step. Steps are gangs: they run one
// after another.
//
//   default          one replica on the worker's processor; takes no options
//   one_device       one replica on strategy.device, which keeps the variables
//   mirrored         a replica on each of strategy.devices, each with a copy of the variables
//   central_storage  a replica on each of strategy.compute_devices, the variables on
//                    strategy.parameter_device alone; not named, that is the GPU where there is
//                    one alone to compute on, and else the processor
//
// The devices of a worker reach its memory, where variables are that are not on one GPU: the copies
// of `mirrored` are one, and it plans what central_storage does on the processor. Where replicas
// are on GPUs their gradients are added up there, by the cross_device_ops of `mirrored`; those of
// central_storage are reduced to one device, as in TensorFlow. No list of devices means all of the
// worker's (ClusterShape.devices).

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class LocalStrategy final : public Strategy {
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
  LocalStrategy(const StrategySpec& spec, std::vector<std::string> devices,
                std::string parameter_device)
      : type_(spec.type),
        cross_device_ops_(spec.cross_device_ops),
        num_packs_(spec.num_packs),
        devices_(std::move(devices)),
        parameter_device_(std::move(parameter_device)) {}
  absl::Status CheckCrossDeviceOps(absl::Span<const std::string> devices) const;
  // Returns the GPU in whose memory variables are; empty: they are in the processor's.
  std::string ParameterGpu(absl::Span<const std::string> devices) const;
  void SetSums(proto::Replicas& replicas) const;

  const std::string type_;
  const std::string cross_device_ops_;      // for mirrored
  const int64_t num_packs_;                 // the same
  const std::vector<std::string> devices_;  // canonical, one of each replica; none: all
  const std::string parameter_device_;      // for central_storage, canonical; empty: not named
};

}  // namespace cohort
