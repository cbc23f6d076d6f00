#pragma once

// Kernels of nodes where replicas meet. Without an exchange in the run's context one replica runs,
// and they give what they would of it alone.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Replaces the kernels that the runtime has for a single replica.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
