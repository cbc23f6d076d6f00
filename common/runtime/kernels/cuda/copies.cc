// Kernels that compute nothing: copies between host memory and the device's memory, and the
// operators of shape_kernels.h for tensors of a device. The operators of shape_kernels.h share a
// device's bytes or only read a shape. All these kernels take all element types, because they do
// not look at the elements.

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/shape_kernels.h"
#include "common/runtime/run/fusion.h"
#include "common/runtime/run/placement.h"

namespace cohort {

namespace {

// Copies a tensor to the device, or uses the tensor's memory in place if the device reaches it. The
// input stays unchanged until the end of the run (compile_program.cc), so a variable that is kept
// in the device's memory can be read in place.
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

void AddCopies(KernelRegistry& registry) {
  registry.Add(kRuntimeDomain, kToDevice,
               DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kHost}, RunToDevice));
  KernelDefinition to_host = DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kDevice}, RunToHost);
  to_host.outputs_on_host = true;
  registry.Add(kRuntimeDomain, kToHost, std::move(to_host));
}

absl::Status RunZerosLike(KernelContext& context) {
  const Tensor& like = context.input(0);
  Tensor& output = context.Output(0, like.dtype(), like.shape());
  context.stream().FillZeros(output);
  return absl::OkStatus();
}

void AddShapes(KernelRegistry& registry) {
  KernelRegistry shared;
  RegisterShapeKernels(shared);
  // Adds an operator of shape_kernels.h. A node of the operator runs on the device only if the
  // node's first input is on the device.
  const auto follow = [&](const char* domain, const char* op, InputPlace shape) {
    KernelDefinition definition = *shared.Find(domain, op);
    definition.places = {InputPlace::kDevice, shape};
    definition.follows = true;
    registry.Add(domain, op, std::move(definition));
  };
  follow("", "Reshape", InputPlace::kHost);
  follow("", "Flatten", InputPlace::kDevice);
  follow("", "Squeeze", InputPlace::kHost);
  follow("", "Unsqueeze", InputPlace::kHost);
  follow("", "Identity", InputPlace::kDevice);
  follow("cohort", "ReshapeLike", InputPlace::kEither);
  follow("cohort", "StopGradient", InputPlace::kDevice);

  KernelDefinition zeros = DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kEither}, RunZerosLike);
  zeros.follows = true;
  registry.Add("cohort", "ZerosLike", std::move(zeros));

  for (const char* op : {"Size", "Shape"}) {
    KernelDefinition definition = *shared.Find("", op);
    definition.places = {InputPlace::kEither};
    definition.outputs_on_host = true;
    registry.Add("", op, std::move(definition));
  }
}

}  // namespace

void RegisterCudaCopies(KernelRegistry& registry) {
  AddCopies(registry);
  AddShapes(registry);
}

}  // namespace cohort
