#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// The candidate with the fewest single-character edits to `name`, for "did you mean"; empty when
// none is near (more than half of the name would change). The first of equals.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace cohort
