// Operators that compute nothing: those of shape_kernels.h for tensors of a device. They share a
// device's bytes or only read a shape. They take all types, because they look at no element.

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/shape_kernels.h"

namespace cohort {

namespace {

absl::Status RunZerosLike(KernelContext& context) {
  const Tensor& like = context.input(0);
  Tensor& output = context.Output(0, like.dtype(), like.shape());
  context.stream().FillZeros(output);
  return absl::OkStatus();
}

}  // namespace

void RegisterCudaShapes(KernelRegistry& registry) {
  KernelRegistry shared;
  RegisterShapeKernels(shared);
  // The node runs where its first input is.
  const auto follow = [&](const char* domain, const char* op, InputPlace shape) {
    KernelDefinition definition = *shared.Find(domain, op);
    definition.places = {InputPlace::kDevice, shape};
    definition.follows = true;
    registry.Add(domain, op, std::move(definition));
  };
  follow("", "Reshape", InputPlace::kHost);
  follow("", "Flatten", InputPlace::kDevice);
  follow("", "Identity", InputPlace::kDevice);
  follow("cohort", "ReshapeLike", InputPlace::kEither);

  KernelDefinition zeros = DeviceKernel({1, 1, {kAnyType}}, {InputPlace::kEither}, RunZerosLike);
  zeros.follows = true;
  registry.Add("cohort", "ZerosLike", std::move(zeros));

  KernelDefinition size = *shared.Find("", "Size");
  size.places = {InputPlace::kEither};
  size.outputs_on_host = true;
  registry.Add("", "Size", std::move(size));
}

}  // namespace cohort
