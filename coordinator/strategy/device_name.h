#pragma once

// Names of devices: the forms that users write, and the canonical form in plans.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Converts a name of a device to its canonical form, such as "cpu:0" or "gpu:1". Accepts the forms
// that TensorFlow accepts: "cpu:0", "CPU:0", "/cpu:0", "/device:CPU:0" and
// "/job:localhost/.../device:CPU:0". Errors: INVALID_ARGUMENT for any other name.
absl::StatusOr<std::string> CanonicalDevice(absl::string_view name);

// Returns the canonical names of the devices `names`, one replica for each. Replicas may share a
// GPU, whose name then occurs several times. Errors: INVALID_ARGUMENT naming the job's field
// `field` and a name that is not a device's name, or a processor that is named twice.
absl::StatusOr<std::vector<std::string>> ReplicaDevices(const std::string& field,
                                                        const std::vector<std::string>& names);

// Returns the devices on which replicas run: `named`, the devices that the job names, if there are
// any. Otherwise returns `all`, the devices of a worker, or "cpu:0" if these are not known.
std::vector<std::string> DevicesIn(const std::vector<std::string>& named,
                                   const std::vector<std::string>& all);

}  // namespace cohort
