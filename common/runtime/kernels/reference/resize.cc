#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceResize(KernelRegistry&) {}

}  // namespace cohort
