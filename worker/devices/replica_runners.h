#pragma once

// Makes the runners of a program, one for each replica, on the devices that the program names:
// cpu:N is the processor, whatever N is; gpu:N is GPU number N. On a GPU, nodes without a GPU
// kernel run on the processor. Several replicas may be on one GPU, each with its own stream.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"
#include "common/runtime/run/program_runner.h"
#include "common/wire/frame_limits.h"
#include "proto/worker.pb.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

// Returns the functions of CUDA. Called when a program is to run on a GPU, or when devices are
// listed. Thread-safe. Errors: FAILED_PRECONDITION saying why there is no CUDA and what to do.
using FindCuda = std::function<absl::StatusOr<const CudaTable*>()>;

// The devices on which this worker can compute.
struct LocalDevices {
  std::vector<std::string> names;  // names of all usable GPUs; "cpu:0" alone if there are none
  std::string no_gpu_reason;       // the reason why no GPU can be used; empty if one can
};

// Lists the devices of this machine. May block, because it loads the CUDA library.
LocalDevices ListLocalDevices(const FindCuda& find_cuda);

// Returns the functions of CUDA that `find_cuda` finds. Errors: those of `find_cuda`;
// FAILED_PRECONDITION if `find_cuda` is null, which means that this worker computes on the
// processor only.
absl::StatusOr<const CudaTable*> CudaOf(const FindCuda& find_cuda);

// The largest number of replicas that one worker runs.
inline constexpr int kReplicasMax = 64;

// Returns the number of replicas that the program asks for, at least 1. Errors: INVALID_ARGUMENT
// for a device name that is neither cpu:N nor gpu:N, and for more than kReplicasMax replicas.
absl::StatusOr<int> NumReplicas(const proto::Program& program);

// The objects of a worker from which runners are made.
struct ReplicaParts {
  const KernelRegistry& kernels;  // the kernels for the processor
  AllocateBuffer allocate_outputs;
  FindCuda find_cuda;  // finds CUDA; null: this worker does not use CUDA
  FindNccl find_nccl;  // finds NCCL; null: this worker does not use NCCL
  // Most bytes that one pull or push moves, see MakeTransferPlan.
  size_t call_bytes_max = kCallBytesMax;
};

// Makes a runner for each replica of the program. The outputs that `left_there` marks stay on the
// GPU of a replica that has one (DeviceTarget.left_there). Errors: those of CompileProgram and
// NumReplicas; FAILED_PRECONDITION naming the program, the GPU that cannot be used, and the reason.
absl::StatusOr<std::vector<std::unique_ptr<ProgramRunner>>> MakeReplicaRunners(
    const proto::Program& program, const onnx::ModelProto& model, const ReplicaParts& parts,
    const std::vector<bool>& left_there);

}  // namespace cohort
