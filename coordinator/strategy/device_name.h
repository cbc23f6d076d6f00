#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// "cpu:0" for "cpu:0", "CPU:0", "/cpu:0", "/device:CPU:0" and "/job:localhost/.../device:CPU:0", as
// TensorFlow takes them; "gpu:1" in the same way. Errors: INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> CanonicalDevice(absl::string_view name);

}  // namespace cohort
