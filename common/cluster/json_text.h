#pragma once

// How a JSON text that a person wrote is read: a parser that keeps quiet about repeated keys and
// about where an error is would make a bad file hard to mend.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// Errors: INVALID_ARGUMENT with line and column of the first syntax error, or with the path of each
// key that one object has twice.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text);

// On one line. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::json& value);

}  // namespace cohort
