#include "common/runtime/kernels/cpu/fast_kernel.h"

namespace cohort {

void RegisterCpuLayerNorm(const CpuRegistration&) {}

}  // namespace cohort
