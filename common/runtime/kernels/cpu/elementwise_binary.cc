#include "common/runtime/kernels/cpu/fast_kernel.h"

namespace cohort {

void RegisterCpuElementwiseBinary(const CpuRegistration&) {}

}  // namespace cohort
