#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceRecurrent(KernelRegistry&) {}

}  // namespace cohort
