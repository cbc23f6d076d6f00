#pragma once

// Reading of JSON text that a person wrote: a parser that keeps quiet about repeated keys and about
// the place of an error would make a bad file hard to mend. No exception leaves these functions.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// A reader that recurses must not run out of stack.
inline constexpr int kJsonDepthMax = 32;

// Parses one value of at most kJsonDepthMax levels, in UTF-8, with nothing after it. Errors:
// INVALID_ARGUMENT with line and column of the first syntax error, or with the path of each key
// that occurs twice in one object.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text);

// Returns the value on one line. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::json& value);

// Returns JsonLine cut short for a message.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace cohort
