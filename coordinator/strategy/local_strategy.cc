#include "coordinator/strategy/local_strategy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/plan_parts.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<const Strategy>> LocalStrategy::Make(const StrategySpec& spec) {
  std::vector<std::string> devices = {"cpu:0"};
  std::string parameter_device;
  if (spec.type == "one_device") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.device", {spec.device}));
  } else if (spec.type == "mirrored") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.devices", spec.devices));
  } else if (spec.type == "central_storage") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.compute_devices", spec.compute_devices));
    if (!spec.parameter_device.empty()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> home,
                       ReplicaDevices("strategy.parameter_device", {spec.parameter_device}));
      parameter_device = home[0];
    }
  }
  std::unique_ptr<const LocalStrategy> made(
      new LocalStrategy(spec, std::move(devices), std::move(parameter_device)));
  RETURN_IF_ERROR(made->CheckCrossDeviceOps(made->devices_));
  return made;
}

// All replicas of a worker share its memory, so each way of TensorFlow's gives the same sum, in
// the order of join_replicas.h; but one that is for GPUs says what the user believes to have.
absl::Status LocalStrategy::CheckCrossDeviceOps(absl::Span<const std::string> devices) const {
  const auto processor = std::find_if_not(devices.begin(), devices.end(), IsGpu);
  const bool nccl = type_ == "mirrored" && cross_device_ops_ == "nccl";
  if (!nccl || processor == devices.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy.cross_device_ops is 'nccl', which joins GPUs, and replica ",
      processor - devices.begin(), " is on ", *processor,
      ": leave it out, or name GPUs in strategy.devices"));
}

// As in TensorFlow, the only GPU that computes keeps the variables, where nothing else is said.
std::string LocalStrategy::ParameterGpu(absl::Span<const std::string> devices) const {
  if (IsGpu(parameter_device_)) return parameter_device_;
  const bool to_choose = type_ == "one_device" ||
                         (type_ == "central_storage" && parameter_device_.empty());
  return to_choose && devices.size() == 1 && IsGpu(devices[0]) ? devices[0] : "";
}

std::vector<std::string> LocalStrategy::NotesOn(const ClusterShape& cluster) const {
  std::vector<std::string> notes;
  if (TakesAllDevices() && cluster.devices.empty()) notes.emplace_back(kDevicesUnknown);
  const std::vector<std::string> devices = DevicesIn(devices_, cluster.devices);
  if (type_ != "mirrored" || cross_device_ops_ == "auto") return notes;
  if (std::none_of(devices.begin(), devices.end(), IsGpu)) return notes;
  notes.push_back(absl::StrCat(
      "strategy.cross_device_ops '", cross_device_ops_,
      "': replicas of one worker are added up in its memory, where the variables are, in one "
      "order, whatever cross_device_ops says"));
  return notes;
}

absl::Status LocalStrategy::CheckCluster(const ClusterShape& cluster) const {
  if (!cluster.ps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy '", type_, "' keeps the variables in its worker, but the cluster has ",
        cluster.ps.size(), " ps: leave ps out of the cluster (--local worker=1), or set "
        "strategy.type to parameter_server"));
  }
  if (cluster.workers.size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy '", type_, "' trains in one worker, but the cluster has ", cluster.workers.size(),
      ": give it one (--local worker=1); for several, set strategy.type to multi_worker_mirrored "
      "or parameter_server"));
}

absl::StatusOr<Plan> LocalStrategy::MakePlan(const ModelPrograms& model,
                                             const ClusterShape& cluster) const {
  RETURN_IF_ERROR(CheckCluster(cluster));
  if (TakesAllDevices()) RETURN_IF_ERROR(CheckCrossDeviceOps(cluster.devices));
  ReplicatedTraining how;
  how.home = cluster.workers;
  how.reason = "every variable is in the worker's own memory";
  how.devices = DevicesIn(devices_, cluster.devices);
  how.replicas = NumReplicasInSync(cluster);
  how.parameter_device = ParameterGpu(how.devices);
  // As in TensorFlow: where variables are not mirrored all replicas share one value.
  how.own_values = type_ == "mirrored" ? how.replicas : 0;
  ASSIGN_OR_RETURN(Plan plan, PlanReplicated(model, how));
  plan.notes = NotesOn(cluster);
  return plan;
}

int64_t LocalStrategy::NumReplicasInSync(const ClusterShape& cluster) const {
  return static_cast<int64_t>(DevicesIn(devices_, cluster.devices).size());
}

}  // namespace cohort
