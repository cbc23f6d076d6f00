// Copies between host memory and the device's memory.

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/run/fusion.h"
#include "common/runtime/run/placement.h"

namespace cohort {

namespace {

// Copies a tensor to the device, or uses it in place if the device reaches it. The input stays
// unchanged until the end of the run (compile_program.cc), so a variable whose home is the device
// can be read in place.
absl::Status RunToDevice(KernelContext& context) {
  const Tensor host = context.input(0);
  if (host.num_bytes() > 0 && context.stream().Reaches(host.raw())) {
    context.Forward(0, context.stream().InPlace(host));
    return absl::OkStatus();
  }
  context.stream().CopyToDevice(host, context.Output(0, host.dtype(), host.shape()));
  return absl::OkStatus();
}

// Copies a tensor to the host and waits for the copy, since the next node reads the tensor at once.
absl::Status RunToHost(KernelContext& context) {
  const Tensor device = context.input(0);
  context.stream().CopyToHost(device, context.Output(0, device.dtype(), device.shape()));
  return context.stream().Wait();
}

}  // namespace

void RegisterCudaCopies(KernelRegistry& registry) {
  registry.Add(kRuntimeDomain, kToDevice,
               DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kHost}, RunToDevice));
  KernelDefinition to_host = DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kDevice}, RunToHost);
  to_host.outputs_on_host = true;
  registry.Add(kRuntimeDomain, kToHost, std::move(to_host));
}

}  // namespace cohort
