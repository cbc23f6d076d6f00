#pragma once

// The kernels of the processor. The folder has one file for each family of operators.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers the processor's kernels: oneDNN for matrix products and convolutions, vectorised loops
// for everything else. `threads` is the number of threads with which oneDNN computes (OpenMP's team
// size). The number is part of the plan, because it changes the bits of results.
void RegisterCpuKernels(KernelRegistry& registry, int threads);

}  // namespace cohort
