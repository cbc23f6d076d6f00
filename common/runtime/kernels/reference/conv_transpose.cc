#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceConvTranspose(KernelRegistry&) {}

}  // namespace cohort
