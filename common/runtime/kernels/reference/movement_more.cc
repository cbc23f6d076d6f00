#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceMovementMore(KernelRegistry&) {}

}  // namespace cohort
