#pragma once

// Kernels of the nodes at which replicas meet. If the run's context has no exchange, only one
// replica runs, and the kernels give the result for that replica alone.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Replaces the runtime's single-replica kernels of these nodes in `registry`.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
