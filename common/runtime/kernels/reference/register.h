#pragma once

// The reference kernels, one for every operator that Cohort knows.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers the reference kernels: plain loops that accumulate in double. Tests compare the other
// kernels with them.
void RegisterReferenceKernels(KernelRegistry& registry);

}  // namespace cohort
