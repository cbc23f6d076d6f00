#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/runtime/update/update_kernel.h"
#include "proto/plan.pb.h"

namespace cohort {

class CudaStream;

// Errors: INVALID_ARGUMENT for an unknown op or parameter.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeUpdateKernel(const proto::UpdateRule& rule);

// Of a device, for its dense updates alone: Apply posts to `stream`, which outlives the kernel, and
// returns. Whoever calls it uses the stream, waits for it, and then asks it what failed. Gradients
// lie where the stream reaches them; all else is unified memory (cuda_stream.h). Errors: as above.
absl::StatusOr<std::unique_ptr<UpdateKernel>> MakePostedUpdateKernel(const proto::UpdateRule& rule,
                                                                     CudaStream& stream);

}  // namespace cohort
