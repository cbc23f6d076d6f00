#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/runtime/update/update_kernel.h"
#include "proto/plan.pb.h"

namespace cohort {

class CudaStream;

// Errors: INVALID_ARGUMENT for an unknown op or parameter.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule);

// Makes a kernel for dense updates on a device: Apply posts to `stream`, which outlives the kernel,
// and returns. The caller waits for the stream and then asks it what failed. Gradients lie within
// the stream's reach; all else is unified memory (cuda_stream.h). Errors: those of
// MakeUpdateKernel.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakePostedUpdateKernel(const proto::UpdateRule& rule,
                                                                     CudaStream& stream);

}  // namespace cohort
