#pragma once

// The memory of a GPU as a home of variables: unified memory that stays on the GPU, where dense
// updates run. A program on the same GPU reads a variable where it lies. What is not done in every
// step, and what is done to rows alone, the processor does in the same memory: right and slow,
// because it comes to the processor for that, and goes back for the next update.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"
#include "common/runtime/update/variable_memory.h"

namespace cohort {

// Opens the memory of a GPU as a home of variables. An update has ended when Apply returns.
// Gradients out of the GPU's reach are copied to it first; if there is no room for that, the
// processor updates. The gradients of ApplyRows are read by the processor. When the GPU fails, the
// variables are lost: the process ends, with a line in the log that says why. Buffers and kernels
// may outlive the returned memory; `table` outlives all. Errors: FAILED_PRECONDITION for a device
// that is not there, or cannot be used so, saying why.
absl::StatusOr<std::shared_ptr<VariableMemory>> OpenGpuMemory(const CudaTable& table,
                                                              int32_t device);

}  // namespace cohort
