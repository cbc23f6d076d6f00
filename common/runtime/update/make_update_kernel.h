#pragma once

// Makes the kernel of an update rule: the loops that apply a gradient to a value and its slots.

#include <memory>

#include "absl/status/statusor.h"
#include "common/runtime/update/update_kernel.h"
#include "proto/plan.pb.h"

namespace cohort {

class CudaStream;

// Makes the kernel that applies `rule` on the processor. Errors: INVALID_ARGUMENT for an unknown op
// or parameter.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule);

// Makes a kernel for dense updates on a device. Apply enqueues its loops on `stream`, which must
// outlive the kernel, and returns without waiting; the caller then calls the stream's Wait, which
// returns the first failure. Gradients must be in memory that the stream's device can access;
// values and optimizer slots in unified memory (cuda_stream.h). Errors: those of MakeUpdateKernel.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakePostedUpdateKernel(const proto::UpdateRule& rule,
                                                                     CudaStream& stream);

}  // namespace cohort
