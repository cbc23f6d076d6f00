#pragma once

// Kernels of operators that compute nothing: they share bytes under another shape, or forward a
// constant. The backends of the processor and of the device both have these kernels.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

void RegisterShapeKernels(KernelRegistry& registry);

}  // namespace cohort
