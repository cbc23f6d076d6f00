#pragma once

// The memory in which a home keeps a variable, and what updates it there: host memory, or that of a
// GPU. Either can be read and written as any other memory while no update runs; of a GPU's that is
// right and slow, so what a step does often goes the way of the device.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/runtime/update/update_kernel.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Immutable; thread-safe. Outlives its buffers and kernels.
class VariableMemory {
 public:
  virtual ~VariableMemory() = default;

  // Errors: RESOURCE_EXHAUSTED when there is no memory left.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) = 0;

  // Makes a kernel for values and slots in this memory; gradients may be anywhere. Errors: those of
  // MakeUpdateKernel.
  virtual absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(
      const proto::UpdateRule& rule) = 0;

  // Returns whether a value lies in one piece, so that one launch updates all of it and a program
  // on the device reads it in place. Otherwise a value is cut into pages.
  virtual bool in_one_piece() const = 0;
};

// Lives to the end of the process.
const std::shared_ptr<VariableMemory>& HostMemory();

// Finds the memory of a device by name: "gpu:1", or a name of the processor, "" among them.
// Thread-safe. Errors: FAILED_PRECONDITION saying why there is no such memory, and what to do.
using FindVariableMemory =
    std::function<absl::StatusOr<std::shared_ptr<VariableMemory>>(const std::string& device)>;

}  // namespace cohort
