#pragma once

// Finds the memory of this worker's GPUs for variables whose home is this worker. A GPU's memory is
// opened when the first variable is placed in it, and stays open.

#include "common/runtime/update/variable_memory.h"
#include "worker/devices/replica_runners.h"

namespace cohort {

// Returns a thread-safe function that finds the memory of a device by its name. The function's
// errors: FAILED_PRECONDITION naming the GPU and saying why it cannot be used.
FindVariableMemory GpuMemories(FindCuda find_cuda);

}  // namespace cohort
