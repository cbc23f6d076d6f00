#pragma once

// The memory in which a home keeps a variable (host memory or the memory of a GPU), with the
// kernels that update the variable there. The processor can read and write both kinds of memory
// like any other memory while no update runs. The processor's access to a GPU's memory is correct
// but slow, so the work of every step runs on the GPU.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/runtime/update/update_kernel.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// The allocator of the buffers of variables, and the factory of the kernels that update them.
// Immutable; thread-safe. Outlives its buffers and kernels.
class VariableMemory {
 public:
  virtual ~VariableMemory() = default;

  // Allocates a buffer for a value or a slot. Errors: RESOURCE_EXHAUSTED if no memory is left.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) = 0;

  // Makes a kernel that updates values and slots in this memory; gradients may be anywhere. Errors:
  // those of MakeUpdateKernel.
  virtual absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(
      const proto::UpdateRule& rule) = 0;

  // Returns whether the bytes of a value are contiguous in memory. A contiguous value is updated by
  // one launch, and a program on the device reads it in place. Otherwise a value is divided into
  // pages.
  virtual bool in_one_piece() const = 0;
};

// Returns the memory of the host as memory for variables. The returned object lives to the end of
// the process.
const std::shared_ptr<VariableMemory>& HostMemory();

// Finds the memory of a device by the device's name: "gpu:1", or a name of the processor, including
// "". Thread-safe. Errors: FAILED_PRECONDITION that says why there is no such memory and what to
// do.
using FindVariableMemory =
    std::function<absl::StatusOr<std::shared_ptr<VariableMemory>>(const std::string& device)>;

}  // namespace cohort
