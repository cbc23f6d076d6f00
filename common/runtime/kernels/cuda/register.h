#pragma once

// The kernels of a CUDA device. Each checks its inputs and posts launches to the device's stream.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers the kernels of a CUDA device. Nodes for which the device has no kernel run on the
// processor.
void RegisterCudaKernels(KernelRegistry& registry);

}  // namespace cohort
