#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceElementwiseUnary(KernelRegistry&) {}

}  // namespace cohort
