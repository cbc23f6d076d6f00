#pragma once

// Overrides of a parsed job file, as --set a.b.2=value gives them. The parts of the path are keys,
// or numbers where the value is a list. The text after '=' is parsed as JSON and otherwise taken as
// a string. Missing or null objects on the path are created.

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// Applies the overrides to the job. Errors: INVALID_ARGUMENT naming the override and the part of
// its path that does not exist.
absl::Status ApplyOverrides(absl::Span<const std::string> overrides, nlohmann::json& job);

}  // namespace cohort
