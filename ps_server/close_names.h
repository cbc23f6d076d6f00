#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// At most `count` of the candidates, nearest to `wanted` by edit distance first, then by name.
std::vector<std::string> CloseNames(absl::string_view wanted,
                                    const std::vector<std::string>& candidates, size_t count);

}  // namespace cohort
