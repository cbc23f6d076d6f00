#pragma once

// The backends that a device test runs on.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/kernels/cuda/register.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "tests/support/cuda_devices.h"

namespace cohort {

struct Backend {
  std::string name;
  KernelRegistry registry;
  // Of a device; else null and empty.
  std::shared_ptr<CudaStream> stream;
  KernelRegistry device;
  bool is_gpu = false;  // products are in float32 there, added up in an order of its own
};

inline Backend CpuBackend() {
  Backend backend = {"cpu", {}, nullptr, {}, false};
  RegisterCpuKernels(backend.registry, 1);
  return backend;
}

inline Backend ReferenceBackend() {
  Backend backend = {"reference", {}, nullptr, {}, false};
  RegisterReferenceKernels(backend.registry);
  return backend;
}

// A device's kernels; what they lack is the reference's.
inline Backend DeviceBackend(const CudaTable& table, CudaDevices devices) {
  Backend backend = {"cuda", {}, *CudaStream::Open(table, 0), {}, devices == CudaDevices::kGpus};
  RegisterReferenceKernels(backend.registry);
  RegisterCudaKernels(backend.device);
  return backend;
}

// Bytes of its arena are NaN behind their last use by the plan, as with all runners of these tests.
inline absl::StatusOr<std::unique_ptr<ProgramRunner>> MakeRunner(const Backend& backend,
                                                                 const onnx::ModelProto& model) {
  const DeviceTarget target{backend.device, backend.stream};
  auto program =
      CompileProgram(model, backend.registry, backend.stream == nullptr ? nullptr : &target);
  if (!program.ok()) return program.status();
  auto runner =
      std::make_unique<ProgramRunner>(*std::move(program), Buffer::Allocate, backend.stream);
  runner->FillDeadMemory();
  return runner;
}

}  // namespace cohort
