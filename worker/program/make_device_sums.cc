#include "worker/program/make_device_sums.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"

namespace cohort {

namespace {

// Returns the GPU number of each replica, or -1 for a replica on the processor.
std::vector<int32_t> GpusOf(const proto::Replicas& replicas) {
  std::vector<int32_t> gpus;
  for (const std::string& device : replicas.devices()) {
    gpus.push_back(GpuNumber(device).value_or(-1));
  }
  return gpus;
}

// Returns the algorithm that the program asks for; if the program leaves the choice open, the
// better one for the number of GPUs. Errors: INVALID_ARGUMENT for an unknown algorithm.
absl::StatusOr<SumWay> WayOf(const proto::Replicas& replicas, const std::vector<int32_t>& gpus) {
  switch (replicas.cross_device_ops()) {
    case proto::AUTO_CROSS_DEVICE_OPS:
      return BetterWay(gpus.size());
    case proto::NCCL_ALL_REDUCE:
      return SumWay::kNccl;
    case proto::HIERARCHICAL_COPY:
      return SumWay::kHierarchicalCopy;
    case proto::REDUCTION_TO_ONE_DEVICE:
      return SumWay::kReductionToOneDevice;
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("replicas are to be added up in the unknown way ",
                                                 static_cast<int>(replicas.cross_device_ops())));
}

// Checks that every replica has a GPU of its own, as NCCL demands. NCCL itself would refuse a GPU
// that is named twice with a less helpful message. Errors: INVALID_ARGUMENT naming the device.
absl::Status CheckNccl(const proto::Replicas& replicas) {
  std::set<std::string> seen;
  for (const std::string& device : replicas.devices()) {
    if (!IsGpu(device)) {
      return absl::InvalidArgumentError(
          absl::StrCat("NCCL is to add up replicas, and one is on ", device, ": name GPUs alone"));
    }
    if (!seen.insert(device).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("NCCL is to add up replicas, of which two are on ", device,
                       ", and takes each GPU once: name others, or add up by HIERARCHICAL_COPY"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool SumsOnDevices(const proto::Program& program) {
  const auto& devices = program.replicas().devices();
  return !devices.empty() && !program.replicas().has_communication() &&
         std::all_of(devices.begin(), devices.end(), IsGpu);
}

absl::StatusOr<std::unique_ptr<DeviceSums>> MakeDeviceSums(const proto::Program& program,
                                                           const ReplicaParts& parts) {
  const proto::Replicas& replicas = program.replicas();
  std::vector<int32_t> gpus = GpusOf(replicas);
  ASSIGN_OR_RETURN(const SumWay way, WayOf(replicas, gpus));
  if (replicas.num_packs() < 0 || replicas.num_packs() > kPacksMax) {
    return absl::InvalidArgumentError(absl::StrCat("gradients are to travel in ",
                                                   replicas.num_packs(), " packs; 0 to ", kPacksMax,
                                                   " can be"));
  }
  // The devices are checked for NCCL even if no values are summed on GPUs here, so that the check
  // does not depend on whether the program runs on several workers.
  if (way == SumWay::kNccl) RETURN_IF_ERROR(CheckNccl(replicas));
  if (!SumsOnDevices(program)) return nullptr;
  const NcclTable* nccl = nullptr;
  if (way == SumWay::kNccl) {
    ASSIGN_OR_RETURN(nccl, NcclOf(parts.find_nccl));
  }
  ASSIGN_OR_RETURN(const CudaTable* const cuda, CudaOf(parts.find_cuda));
  return std::make_unique<DeviceSums>(DeviceSums::Options{
      *cuda, nccl, std::move(gpus), way, replicas.num_packs(), parts.allocate_outputs});
}

}  // namespace cohort
