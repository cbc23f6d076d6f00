#include "common/runtime/kernels/cuda/register.h"

#include "common/runtime/kernels/cuda/cuda_kernel.h"

namespace cohort {

KernelDefinition DeviceKernel(Signature signature, std::vector<InputPlace> places,
                              absl::Status (*run)(KernelContext&)) {
  KernelDefinition definition = PlainKernel(std::move(signature), run);
  definition.places = std::move(places);
  return definition;
}

void RegisterCudaKernels(KernelRegistry& registry) {
  RegisterCudaBatchNormalization(registry);
  RegisterCudaConvolution(registry);
  RegisterCudaCopies(registry);
  RegisterCudaDropout(registry);
  RegisterCudaElementwise(registry);
  RegisterCudaLosses(registry);
  RegisterCudaPooling(registry);
  RegisterCudaProducts(registry);
  RegisterCudaReduce(registry);
  RegisterCudaShapes(registry);
  RegisterCudaSoftmax(registry);
}

}  // namespace cohort
