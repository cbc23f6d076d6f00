#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace cohort {

// `count` different loopback ports that were free a moment ago, one a line: for scripts that write
// a TF_CONFIG.
absl::StatusOr<std::string> FreePortsText(int count);

}  // namespace cohort
