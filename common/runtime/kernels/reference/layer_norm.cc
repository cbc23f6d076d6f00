#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceLayerNorm(KernelRegistry&) {}

}  // namespace cohort
