#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

void RegisterReferenceElementwiseBinary(KernelRegistry&) {}

}  // namespace cohort
