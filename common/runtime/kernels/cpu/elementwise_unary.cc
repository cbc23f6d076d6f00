#include "common/runtime/kernels/cpu/fast_kernel.h"

namespace cohort {

void RegisterCpuElementwiseUnary(const CpuRegistration&) {}

}  // namespace cohort
