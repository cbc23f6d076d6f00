#pragma once

// The memory of this worker's GPUs, as a home of variables. Each is opened when a variable is first
// to be in it, and stays open.

#include "common/runtime/update/variable_memory.h"
#include "worker/devices/replica_runners.h"

namespace cohort {

// Returns the finder of those memories. Thread-safe. Its errors: FAILED_PRECONDITION naming the GPU
// and saying why it cannot be used.
FindVariableMemory GpuMemories(FindCuda find_cuda);

}  // namespace cohort
