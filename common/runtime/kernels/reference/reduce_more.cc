#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceReduceMore(KernelRegistry&) {}

}  // namespace cohort
