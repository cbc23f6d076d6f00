#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceCtc(KernelRegistry&) {}

}  // namespace cohort
