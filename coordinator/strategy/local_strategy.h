#pragma once

// Synchronous training in one worker, without parameter servers. The worker's process is the home
// of every variable, in one slice, and runs a replica on each device: it shares the batch out over
// them, joins their gradients and makes one update of each step. Steps are gangs: they run one
// after another.
//
//   default          one replica on the worker's processor; takes no options
//   one_device       one replica on strategy.device
//   mirrored         a replica on each of strategy.devices, each with a copy of the variables
//   central_storage  a replica on each of strategy.compute_devices, the variables on
//                    strategy.parameter_device alone
//
// A worker computes on its processor alone, so all its devices are one memory: the copies of
// `mirrored` are one, and it plans what central_storage does. All local devices, which is what no
// list of devices means, are "cpu:0".

#include <memory>
#include <string>
#include <vector>

#include "coordinator/strategy/strategy.h"

namespace cohort {

// Immutable; thread-safe.
class LocalStrategy final : public Strategy {
 public:
  // Errors: INVALID_ARGUMENT naming the field, the device that is none, named twice, or of a kind
  // that the field does not take.
  static absl::StatusOr<std::unique_ptr<const Strategy>> Make(const StrategySpec& spec);

  absl::StatusOr<Plan> MakePlan(const ModelPrograms& model,
                                const ClusterShape& cluster) const override;
  absl::Status CheckCluster(const ClusterShape& cluster) const override;
  int64_t NumReplicasInSync(const ClusterShape& cluster) const override;

 private:
  LocalStrategy(std::string type, std::vector<std::string> devices)
      : type_(std::move(type)), devices_(std::move(devices)) {}

  const std::string type_;
  const std::vector<std::string> devices_;  // canonical, one of each replica
};

}  // namespace cohort
