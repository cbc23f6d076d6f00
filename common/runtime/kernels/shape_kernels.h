#pragma once

// Operators that compute nothing: they share bytes under another shape, or lend a constant. Both
// backends use them.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

void RegisterShapeKernels(KernelRegistry& registry);

}  // namespace cohort
