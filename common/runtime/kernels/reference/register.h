#pragma once

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers plain loops that accumulate in double: what tests compare the other kernels against.
void RegisterReferenceKernels(KernelRegistry& registry);

}  // namespace cohort
