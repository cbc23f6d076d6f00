#include "common/runtime/kernels/cuda/register.h"

#include "common/runtime/kernels/cuda/cuda_kernel.h"

namespace cohort {

void RegisterCudaKernels(KernelRegistry& registry) {
  RegisterCudaBatchNormalization(registry);
  RegisterCudaConvolution(registry);
  RegisterCudaCopies(registry);
  RegisterCudaElementwise(registry);
  RegisterCudaPooling(registry);
  RegisterCudaProducts(registry);
  RegisterCudaReduce(registry);
  RegisterCudaSoftmaxAndLosses(registry);
}

}  // namespace cohort
