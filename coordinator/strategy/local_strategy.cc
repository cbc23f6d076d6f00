#include "coordinator/strategy/local_strategy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/plan_parts.h"

namespace cohort {
namespace {

constexpr char kProcessor[] = "cpu:0";

bool IsGpu(const std::string& device) { return GpuNumber(device).has_value(); }

// All replicas of a worker share its memory, so each way of TensorFlow's gives the same sum, in
// the order of join_replicas.h; but one that is for GPUs says what the user believes to have.
absl::Status CheckCrossDeviceOps(const StrategySpec& spec, absl::Span<const std::string> devices) {
  const auto processor = std::find_if_not(devices.begin(), devices.end(), IsGpu);
  if (spec.cross_device_ops != "nccl" || processor == devices.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy.cross_device_ops is 'nccl', which joins GPUs, and replica ",
      processor - devices.begin(), " is on ", *processor,
      ": leave it out, or name GPUs in strategy.devices"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Strategy>> LocalStrategy::Make(const StrategySpec& spec) {
  std::vector<std::string> devices = {kProcessor};
  if (spec.type == "one_device") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.device", {spec.device}));
  } else if (spec.type == "mirrored") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.devices", spec.devices));
    RETURN_IF_ERROR(CheckCrossDeviceOps(spec, devices));
  } else if (spec.type == "central_storage") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.compute_devices", spec.compute_devices));
    ASSIGN_OR_RETURN(const std::vector<std::string> home,
                     ReplicaDevices("strategy.parameter_device", {spec.parameter_device}));
    if (IsGpu(home[0])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy.parameter_device is '", spec.parameter_device,
          "', but a worker keeps variables in its processor's memory: name cpu:0"));
    }
  }
  return std::unique_ptr<const Strategy>(new LocalStrategy(spec.type, std::move(devices)));
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
  ReplicatedTraining how;
  how.home = cluster.workers;
  how.reason = "every variable is in the worker's own memory";
  how.devices = devices_;
  how.replicas = NumReplicasInSync(cluster);
  // As in TensorFlow: where variables are not mirrored all replicas share one value.
  how.own_values = type_ == "mirrored" ? how.replicas : 0;
  return PlanReplicated(model, how);
}

int64_t LocalStrategy::NumReplicasInSync(const ClusterShape&) const {
  return static_cast<int64_t>(devices_.size());
}

}  // namespace cohort
