#pragma once

// Operators that compute nothing: they share bytes under another shape, or forward a constant. The
// processor's and the device's backend both use them.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

void RegisterShapeKernels(KernelRegistry& registry);

}  // namespace cohort
