#pragma once

// Functions that read JSON text that a person wrote. A plain JSON parser ignores repeated keys and
// does not say where an error is, so a person could hardly correct a wrong file. No function here
// throws exceptions.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// The largest number of nested levels in a JSON text. The limit protects recursive readers from
// stack overflow.
inline constexpr int kJsonDepthMax = 32;

// Parses one JSON value in UTF-8, with at most kJsonDepthMax levels and with no text after the
// value. Errors: INVALID_ARGUMENT with the line and column of the first syntax error, or with the
// path of each key that occurs twice in one object.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text);

// Returns the JSON value as one line of text. Bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::json& value);

// Returns the JSON value as one line of ASCII text, shortened for an error message.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace cohort
