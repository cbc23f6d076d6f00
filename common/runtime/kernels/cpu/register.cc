#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/shape_kernels.h"

namespace cohort {

void RegisterCpuKernels(KernelRegistry& registry, int threads) {
  RegisterReferenceKernels(registry);
}

}  // namespace cohort
