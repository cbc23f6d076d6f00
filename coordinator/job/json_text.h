#pragma once

// Strict JSON: one value and nothing behind it, no key twice in an object, at most kJsonDepthMax
// levels, valid UTF-8. No exception leaves these functions.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

inline constexpr int kJsonDepthMax = 32;

// Errors: INVALID_ARGUMENT with line and column, or the path of the key that occurs twice.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// One line, cut short for a message.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace cohort
