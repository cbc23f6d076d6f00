#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace cohort {

// Returns the number of the GPU, as CUDA counts them, of a replica's device as plans name it
// ("gpu:1"); nothing for any other device.
std::optional<int32_t> GpuNumber(absl::string_view device);
inline bool IsGpu(absl::string_view device) { return GpuNumber(device).has_value(); }

}  // namespace cohort
