#pragma once

// How a JSON text that a person wrote is read: a parser that keeps quiet about repeated keys and
// about where an error is would make a bad file hard to mend. No exception leaves these functions.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// A reader that recurses must not run out of stack.
inline constexpr int kJsonDepthMax = 32;

// One value of at most kJsonDepthMax levels, in UTF-8, and nothing behind it. Errors:
// INVALID_ARGUMENT with line and column of the first syntax error, or with the path of each key
// that one object has twice.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text);

// On one line. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::json& value);

// The same, cut short for a message.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace cohort
