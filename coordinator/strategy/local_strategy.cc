#include "coordinator/strategy/local_strategy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/plan_parts.h"

namespace cohort {

namespace {

constexpr char kMirrored[] = "mirrored";
constexpr char kCentralStorage[] = "central_storage";

// Converts TensorFlow's name for a way of summing gradients (cross_device_ops). Any other name
// means that the worker chooses.
proto::CrossDeviceOps CrossDeviceOpsOf(const std::string& name) {
  if (name == "nccl") return proto::NCCL_ALL_REDUCE;
  if (name == "hierarchical_copy") return proto::HIERARCHICAL_COPY;
  if (name == "reduction_to_one_device") return proto::REDUCTION_TO_ONE_DEVICE;
  return proto::AUTO_CROSS_DEVICE_OPS;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Strategy>> LocalStrategy::Make(const StrategySpec& spec) {
  // The strategy of type "default" has one replica, on the processor.
  std::vector<std::string> devices = {"cpu:0"};
  std::string parameter_device;
  if (spec.type == "one_device") {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.device", {spec.device}));
  } else if (spec.type == kMirrored) {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.devices", spec.devices));
  } else if (spec.type == kCentralStorage) {
    ASSIGN_OR_RETURN(devices, ReplicaDevices("strategy.compute_devices", spec.compute_devices));
    if (!spec.parameter_device.empty()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> home,
                       ReplicaDevices("strategy.parameter_device", {spec.parameter_device}));
      parameter_device = home[0];
    }
  }
  std::unique_ptr<const LocalStrategy> made(
      new LocalStrategy(spec, std::move(devices), std::move(parameter_device)));
  // If the job lists no devices, they become known in MakePlan, which then makes this check.
  RETURN_IF_ERROR(made->CheckCrossDeviceOps(made->devices_));
  return made;
}

// Checks the way of summing gradients. The way 'nccl' needs GPUs, each of them once: a user who
// asks for NCCL believes to have GPUs, so it is refused on processors. There the other ways all
// give the same sum (join_replicas.h).
absl::Status LocalStrategy::CheckCrossDeviceOps(absl::Span<const std::string> devices) const {
  if (type_ != kMirrored || cross_device_ops_ != "nccl") return absl::OkStatus();
  std::set<std::string> seen;
  for (size_t i = 0; i < devices.size(); ++i) {
    // NCCL allows each GPU only once among the GPUs that are summed over.
    const bool twice = !seen.insert(devices[i]).second;
    if (IsGpu(devices[i]) && !twice) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy.cross_device_ops is 'nccl', which joins GPUs", twice ? ", each once" : "",
        ", and replica ", i, " is on ", devices[i], twice ? " as one before it" : "",
        ": leave it out, or name GPUs in strategy.devices"));
  }
  return absl::OkStatus();
}

// Returns the GPU that holds the variables, or "" if the processor's memory does. As in TensorFlow,
// a GPU that is the only device to compute holds the variables, unless the job says otherwise.
std::string LocalStrategy::ParameterGpu(absl::Span<const std::string> devices) const {
  if (IsGpu(parameter_device_)) return parameter_device_;
  const bool to_choose =
      type_ == "one_device" || (type_ == kCentralStorage && parameter_device_.empty());
  const bool one = std::all_of(devices.begin(), devices.end(),
                               [&](const std::string& device) { return device == devices[0]; });
  return to_choose && one && !devices.empty() && IsGpu(devices[0]) ? devices[0] : "";
}

// Sets the way of summing gradients in `replicas`, for the train step. Other programs get none: if
// two sums over NCCL ran at the same time on one GPU, each might wait for the other for ever.
void LocalStrategy::SetSums(proto::Replicas& replicas) const {
  if (type_ == kMirrored) {
    replicas.set_cross_device_ops(CrossDeviceOpsOf(cross_device_ops_));
    replicas.set_num_packs(static_cast<int32_t>(num_packs_));
  } else if (type_ == kCentralStorage) {
    replicas.set_cross_device_ops(proto::REDUCTION_TO_ONE_DEVICE);
  }
}

absl::Status LocalStrategy::CheckCluster(const ClusterShape& cluster) const {
  if (!cluster.ps.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy '", type_,
                     "' keeps the variables in its worker, but the cluster has ", cluster.ps.size(),
                     " ps: leave ps out of the cluster (--local worker=1), or set "
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
  // As in TensorFlow, a variable that is not mirrored has one value, which all replicas share.
  how.own_values = type_ == kMirrored ? how.replicas : 0;
  ASSIGN_OR_RETURN(Plan plan, PlanReplicated(model, how));
  SetSums(*plan.train_step.mutable_replicas());
  // If a plan is made without asking workers, cpu:0 stands for the devices that are not known.
  if (TakesAllDevices() && cluster.devices.empty()) plan.notes.emplace_back(kDevicesUnknown);
  return plan;
}

int64_t LocalStrategy::NumReplicasInSync(const ClusterShape& cluster) const {
  return static_cast<int64_t>(DevicesIn(devices_, cluster.devices).size());
}

}  // namespace cohort
