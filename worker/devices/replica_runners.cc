#include "worker/devices/replica_runners.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gpu_number.h"
#include "common/runtime/cuda/cuda_library.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernels/cuda/register.h"

namespace cohort {

namespace {

constexpr absl::string_view kProcessor = "cpu:";

// Opens a new stream on a GPU. Each replica gets a stream of its own, even if several are on one
// GPU.
absl::StatusOr<std::shared_ptr<CudaStream>> OpenGpu(int32_t number, const FindCuda& find_cuda) {
  ASSIGN_OR_RETURN(const CudaTable* const table, CudaOf(find_cuda));
  return CudaStream::Open(*table, number);
}

absl::StatusOr<int32_t> CountGpus(const FindCuda& find_cuda) {
  ASSIGN_OR_RETURN(const CudaTable* const table, CudaOf(find_cuda));
  ASSIGN_OR_RETURN(const int32_t count, CountCudaDevices(*table));
  if (count > 0) return count;
  return absl::FailedPreconditionError("this machine has no GPU");
}

}  // namespace

LocalDevices ListLocalDevices(const FindCuda& find_cuda) {
  const absl::StatusOr<int32_t> gpus = CountGpus(find_cuda);
  // Without a usable GPU, the only device is "cpu:0", and the reason says why there is no GPU.
  if (!gpus.ok()) return {{"cpu:0"}, std::string(gpus.status().message())};
  LocalDevices local;
  for (int32_t i = 0; i < *gpus; ++i) local.names.push_back(absl::StrCat("gpu:", i));
  return local;
}

absl::StatusOr<const CudaTable*> CudaOf(const FindCuda& find_cuda) {
  if (find_cuda != nullptr) return find_cuda();
  return absl::FailedPreconditionError(
      "this worker computes on its processor alone: name cpu:0, cpu:1, ...");
}

absl::StatusOr<int> NumReplicas(const proto::Program& program) {
  // Unknown device names are refused here, before the program is compiled, because compiling takes
  // long.
  const auto& devices = program.replicas().devices();
  for (const std::string& device : devices) {
    if (absl::StartsWith(device, kProcessor) || IsGpu(device)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("program '", program.name(), "' is to run on device '", device,
                     "', which is not a device: name cpu:0 or gpu:0"));
  }
  // A program that names no devices runs as one replica on the processor.
  if (devices.size() <= kReplicasMax) return std::max(devices.size(), 1);
  return absl::InvalidArgumentError(absl::StrCat("program '", program.name(), "' asks for ",
                                                 devices.size(), " replicas; a worker runs ",
                                                 kReplicasMax, " at most"));
}

absl::StatusOr<std::vector<std::unique_ptr<ProgramRunner>>> MakeReplicaRunners(
    const proto::Program& program, const onnx::ModelProto& model, const ReplicaParts& parts,
    const std::vector<bool>& left_there) {
  ASSIGN_OR_RETURN(const int replicas, NumReplicas(program));
  KernelRegistry device_kernels;
  RegisterCudaKernels(device_kernels);
  // The program compiled for the processor; shared by all replicas there, because a compiled
  // program has no state of a run.
  std::shared_ptr<const CompiledProgram> of_processor;
  std::vector<std::unique_ptr<ProgramRunner>> runners;
  for (int i = 0; i < replicas; ++i) {
    const std::string device =
        program.replicas().devices().empty() ? "cpu:0" : program.replicas().devices(i);
    const std::optional<int32_t> gpu = GpuNumber(device);
    if (!gpu.has_value()) {
      if (of_processor == nullptr) {
        ASSIGN_OR_RETURN(of_processor, CompileProgram(model, parts.kernels));
      }
      runners.push_back(std::make_unique<ProgramRunner>(of_processor, parts.allocate_outputs));
      continue;
    }
    absl::StatusOr<std::shared_ptr<CudaStream>> stream = OpenGpu(*gpu, parts.find_cuda);
    if (!stream.ok()) {
      return Annotate(stream.status(), absl::StrCat("program '", program.name(),
                                                    "' is to run on device '", device, "'"));
    }
    // For a GPU, the program is compiled once per replica, because the result is bound to the
    // replica's stream.
    const DeviceTarget target{device_kernels, *stream, left_there};
    ASSIGN_OR_RETURN(auto compiled, CompileProgram(model, parts.kernels, &target));
    runners.push_back(std::make_unique<ProgramRunner>(std::move(compiled), parts.allocate_outputs,
                                                      *std::move(stream)));
  }
  return runners;
}

}  // namespace cohort
