#include "common/runtime/kernels/cpu/fast_kernel.h"

namespace cohort {

void RegisterCpuRecurrent(const CpuRegistration&) {}

}  // namespace cohort
