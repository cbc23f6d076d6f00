#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceEinsum(KernelRegistry&) {}

}  // namespace cohort
