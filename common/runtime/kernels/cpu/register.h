#pragma once

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers the processor's kernels: oneDNN for matrix products and convolutions, vectorised loops
// for the rest. `threads` is the budget of this process's compute (OpenMP's team size for oneDNN);
// it is part of the plan because it changes bits.
void RegisterCpuKernels(KernelRegistry& registry, int threads);

}  // namespace cohort
