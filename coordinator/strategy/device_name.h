#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns "cpu:0" for "cpu:0", "CPU:0", "/cpu:0", "/device:CPU:0" and
// "/job:localhost/.../device:CPU:0", as TensorFlow takes them; "gpu:1" in the same way. Errors:
// INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> CanonicalDevice(absl::string_view name);

// Returns the replicas' devices in canonical form. Replicas may share a GPU, which is then named
// once for each. Errors: INVALID_ARGUMENT naming the field and the name that is not a device's, or
// the processor named twice.
absl::StatusOr<std::vector<std::string>> ReplicaDevices(const std::string& field,
                                                        const std::vector<std::string>& names);

// Returns where replicas run: on the named devices, or on all that the workers have. If the
// cluster's devices are not known, that is the processor.
std::vector<std::string> DevicesIn(const std::vector<std::string>& named,
                                   const std::vector<std::string>& all);

}  // namespace cohort
