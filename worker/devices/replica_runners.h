#pragma once

// Makes a program's runners, one for each replica, on the devices that the program asks for. cpu:N
// is the processor, whatever N is. gpu:N is a GPU; nodes without a GPU kernel run on the processor.
// Several replicas may be on one GPU, each with its own stream.

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

// Returns the table of CUDA's functions. Called when a program is to run on a GPU. Thread-safe.
// Errors: FAILED_PRECONDITION saying why there is no CUDA and what to do.
using FindCuda = std::function<absl::StatusOr<const CudaTable*>()>;

// The devices of this worker's machine.
struct LocalDevices {
  std::vector<std::string> names;  // names of all GPUs, or "cpu:0" alone
  std::string no_gpu_reason;       // reason why the machine has no usable GPU; empty if it has one
};

// Lists the devices of this machine. May block, since it looks for the CUDA library and loads it.
LocalDevices ListLocalDevices(const FindCuda& find_cuda);

// Returns the table of CUDA's functions that `find_cuda` finds. Errors: those of `find_cuda`;
// FAILED_PRECONDITION if `find_cuda` is null, since the worker then computes on its processor
// alone.
absl::StatusOr<const CudaTable*> CudaOf(const FindCuda& find_cuda);

// The largest number of replicas that one worker runs.
inline constexpr int kReplicasMax = 64;

// Returns the number of replicas that the program asks for, at least 1. Errors: INVALID_ARGUMENT
// for a name that names no device, and for more than kReplicasMax replicas.
absl::StatusOr<int> NumReplicas(const proto::Program& program);

// The worker's resources from which programs and their runners are made.
struct ReplicaParts {
  const KernelRegistry& kernels;  // kernels that run on the processor
  AllocateBuffer allocate_outputs;
  FindCuda find_cuda;                     // finds CUDA; null: this worker uses no CUDA
  FindNccl find_nccl;                     // finds NCCL; null: this worker uses no NCCL
  size_t call_bytes_max = kCallBytesMax;  // limit of bytes per call, for MakeTransferPlan
};

// Makes a runner for each replica. The outputs that `left_there` marks stay on the GPU of a runner
// that has a GPU (DeviceTarget.left_there). Errors: those of CompileProgram and of NumReplicas;
// FAILED_PRECONDITION naming the program and the GPU that cannot be used, with the reason.
absl::StatusOr<std::vector<std::unique_ptr<ProgramRunner>>> MakeReplicaRunners(
    const proto::Program& program, const onnx::ModelProto& model, const ReplicaParts& parts,
    const std::vector<bool>& left_there);

}  // namespace cohort
