#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace cohort {

// Of a replica's device as plans name it, such as "gpu:1": the number of the GPU, as CUDA counts
// them. None for anything else.
std::optional<int32_t> GpuNumber(absl::string_view device);
inline bool IsGpu(absl::string_view device) { return GpuNumber(device).has_value(); }

}  // namespace cohort
