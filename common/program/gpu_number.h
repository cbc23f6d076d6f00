#pragma once

// The devices of a plan are named as in TensorFlow, "cpu:0" or "gpu:1"; CUDA numbers its GPUs from
// 0.

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace cohort {

// Returns CUDA's number of the GPU that a plan's device name means (1 for "gpu:1"), or nullopt for
// any other device.
std::optional<int32_t> GpuNumber(absl::string_view device);
inline bool IsGpu(absl::string_view device) { return GpuNumber(device).has_value(); }

}  // namespace cohort
