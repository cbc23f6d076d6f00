#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceMetricOps(KernelRegistry&) {}

}  // namespace cohort
