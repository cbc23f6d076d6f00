#pragma once

// Kernels of nodes where replicas meet. Without an exchange in the run's context one replica runs,
// and they give what they would of it alone.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// In the place of those that the runtime has for one replica.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
