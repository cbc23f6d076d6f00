#pragma once

// A program on the devices that it asks for: a runner for each replica. cpu:N is the processor,
// whatever the number; gpu:N is a GPU, where what has no kernel for it stays on the processor.
// Several replicas may be on one GPU, each with a stream of its own.

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

// Asked when a program is to run on a GPU. Thread-safe. Errors: FAILED_PRECONDITION saying why
// there is none, and what to do.
using FindCuda = std::function<absl::StatusOr<const CudaTable*>()>;

// The devices of this worker's machine.
struct LocalDevices {
  std::vector<std::string> names;  // all GPUs, or "cpu:0"
  std::string no_gpu_reason;       // empty: there are GPUs
};

// Lists the devices. May block: CUDA is looked for, and loaded.
LocalDevices ListLocalDevices(const FindCuda& find_cuda);

// Calls `find_cuda`; null finds nothing.
absl::StatusOr<const CudaTable*> CudaOf(const FindCuda& find_cuda);

inline constexpr int kReplicasMax = 64;

// Returns how many replicas the program asks for, at least 1. Errors: INVALID_ARGUMENT for a name
// that is not a device's, and for too many.
absl::StatusOr<int> NumReplicas(const proto::Program& program);

// The parts that programs and their runners are made of.
struct ReplicaParts {
  const KernelRegistry& kernels;  // the processor's
  AllocateBuffer allocate_outputs;
  FindCuda find_cuda;                     // null: there is none
  FindNccl find_nccl;                     // the same
  size_t call_bytes_max = kCallBytesMax;  // MakeTransferPlan's
};

// Makes a runner for each replica; on GPUs they leave outputs there as DeviceTarget.left_there
// says. Errors: those of CompileProgram and of NumReplicas; FAILED_PRECONDITION naming the program,
// and a GPU that cannot be used, with the reason.
absl::StatusOr<std::vector<std::unique_ptr<ProgramRunner>>> MakeReplicaRunners(
    const proto::Program& program, const onnx::ModelProto& model, const ReplicaParts& parts,
    const std::vector<bool>& left_there);

}  // namespace cohort
