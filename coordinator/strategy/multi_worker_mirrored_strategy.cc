#include "coordinator/strategy/multi_worker_mirrored_strategy.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "common/tensor/dtype.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/device_name.h"
#include "coordinator/strategy/plan_parts.h"

namespace cohort {
namespace {

constexpr char kNccl[] = "nccl";
constexpr double kMillisecondsOfSecond = 1000;

absl::StatusOr<proto::Communication> ReadCommunication(const CommunicationSpec& spec) {
  proto::Communication communication;
  communication.set_ring(spec.implementation == "ring");
  communication.set_nccl(spec.implementation == kNccl);
  communication.set_bytes_per_pack(spec.bytes_per_pack);
  communication.set_timeout_ms(
      static_cast<int64_t>(std::ceil(spec.timeout_seconds * kMillisecondsOfSecond)));
  ASSIGN_OR_RETURN(const DType gradient, DTypeFromName(spec.gradient_dtype));
  communication.set_gradient_dtype(static_cast<int32_t>(gradient));
  return communication;
}

}  // namespace

absl::Status MultiWorkerMirroredStrategy::CheckImplementation(
    absl::Span<const std::string> devices) const {
  // With NCCL, the workers sum over their GPUs, so every replica must be on a GPU.
  for (size_t i = 0; implementation_ == kNccl && i < devices.size(); ++i) {
    if (IsGpu(devices[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy.communication_options.implementation is 'nccl', which joins GPUs, and replica ",
        i, " of each worker is on ", devices[i],
        ": leave it out, or name GPUs in strategy.devices"));
  }
  return absl::OkStatus();
}

std::optional<int32_t> NcclDeviceOf(const StrategySpec& spec) {
  if (spec.type != kMultiWorkerMirrored || spec.communication.implementation != kNccl) {
    return std::nullopt;
  }
  // If the job lists no devices, each worker uses all its GPUs, numbered from 0.
  if (spec.devices.empty()) return 0;
  const absl::StatusOr<std::string> first = CanonicalDevice(spec.devices[0]);
  return first.ok() ? GpuNumber(*first) : std::nullopt;
}

absl::StatusOr<std::unique_ptr<const Strategy>> MultiWorkerMirroredStrategy::Make(
    const StrategySpec& spec) {
  ASSIGN_OR_RETURN(std::vector<std::string> devices,
                   ReplicaDevices("strategy.devices", spec.devices));
  ASSIGN_OR_RETURN(proto::Communication communication, ReadCommunication(spec.communication));
  std::unique_ptr<const MultiWorkerMirroredStrategy> made(new MultiWorkerMirroredStrategy(
      std::move(devices), spec.communication.implementation, std::move(communication)));
  RETURN_IF_ERROR(made->CheckImplementation(made->devices_));
  return made;
}

absl::Status MultiWorkerMirroredStrategy::CheckCluster(const ClusterShape& cluster) const {
  if (cluster.workers.empty()) {
    return absl::InvalidArgumentError(
        "strategy 'multi_worker_mirrored' needs workers, and the cluster has none: add "
        "cluster.worker to TF_CONFIG, or use --local worker=3");
  }
  if (cluster.ps.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy 'multi_worker_mirrored' keeps the variables in its workers, but the cluster has ",
      cluster.ps.size(),
      " ps: leave ps out of the cluster (--local worker=3), or set "
      "strategy.type to parameter_server"));
}

absl::StatusOr<Plan> MultiWorkerMirroredStrategy::MakePlan(const ModelPrograms& model,
                                                           const ClusterShape& cluster) const {
  RETURN_IF_ERROR(CheckCluster(cluster));
  if (TakesAllDevices()) RETURN_IF_ERROR(CheckImplementation(cluster.devices));
  ReplicatedTraining how;
  // The plan names the first worker as the home of the variables: reads go to its copy.
  how.home.assign(cluster.workers.begin(), cluster.workers.begin() + 1);
  how.reason = "every worker has a copy; this one is read";
  how.devices = DevicesIn(devices_, cluster.devices);
  how.replicas = how.own_values = NumReplicasInSync(cluster);
  ASSIGN_OR_RETURN(Plan plan, PlanReplicated(model, how));
  for (proto::VariableLayout& layout : plan.variables) layout.set_mirrored(true);
  *plan.train_step.mutable_replicas()->mutable_communication() = communication_;
  // If a plan is made without asking workers, cpu:0 stands for the devices that are not known.
  if (TakesAllDevices() && cluster.devices.empty()) plan.notes.emplace_back(kDevicesUnknown);
  return plan;
}

int64_t MultiWorkerMirroredStrategy::NumReplicasInSync(const ClusterShape& cluster) const {
  return static_cast<int64_t>(cluster.workers.size() * DevicesIn(devices_, cluster.devices).size());
}

}  // namespace cohort
