#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the canonical name of a device: "cpu:0" for "cpu:0", "CPU:0", "/cpu:0", "/device:CPU:0"
// and "/job:localhost/.../device:CPU:0", which TensorFlow accepts too; "gpu:1" in the same way.
// Errors: INVALID_ARGUMENT for any other name.
absl::StatusOr<std::string> CanonicalDevice(absl::string_view name);

// Returns the devices of the replicas in canonical form. Several replicas may share a GPU, whose
// name then occurs once for each replica. Errors: INVALID_ARGUMENT naming the field and the name
// that is not a device's, or a CPU that is named twice.
absl::StatusOr<std::vector<std::string>> ReplicaDevices(const std::string& field,
                                                        const std::vector<std::string>& names);

// Returns the devices on which replicas run: the named devices, or else all devices of the workers,
// or the processor if the workers' devices are not known.
std::vector<std::string> DevicesIn(const std::vector<std::string>& named,
                                   const std::vector<std::string>& all);

}  // namespace cohort
