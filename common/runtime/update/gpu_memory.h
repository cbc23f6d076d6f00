#pragma once

// The memory of a GPU in which a ps or a worker keeps variables: unified memory that stays on the
// GPU, where dense updates run. A program on the same GPU reads a variable in place. The processor
// uses the same memory for updates of single rows, and for all work that is not done in every step.
// That is correct but slow: the memory's pages move to the host, and back to the GPU for the next
// update.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"
#include "common/runtime/update/variable_memory.h"

namespace cohort {

// Opens the memory of a GPU as memory for variables. A call of a kernel's Apply returns after the
// update has ended. Gradients that the GPU cannot reach are first copied to the GPU; if there is no
// room for the copy, the processor does the update. The processor also does all updates of
// ApplyRows. If the GPU fails, the variables are lost: the process logs why and ends. Buffers and
// kernels may outlive the returned memory; `table` must outlive them all. Errors:
// FAILED_PRECONDITION, with the reason, if the device is missing or cannot keep variables.
absl::StatusOr<std::shared_ptr<VariableMemory>> OpenGpuMemory(const CudaTable& table,
                                                              int32_t device);

}  // namespace cohort
