#pragma once

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers what a CUDA device computes; the rest of a program stays with the processor's kernels.
void RegisterCudaKernels(KernelRegistry& registry);

}  // namespace cohort
