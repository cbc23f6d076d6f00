#pragma once

// Suggestions for "Did you mean ...": the known names that are nearest to a mistyped name.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

// Returns the number of insertions, deletions, substitutions and swaps of neighbouring characters
// that turn `a` into `b` (optimal string alignment). Only the first 64 bytes of each name are
// compared, so that a name from a damaged file cannot make the computation expensive.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the candidates nearest to `name`, at most `count` of them, nearest first. Upper and lower
// case count as equal. Candidates at equal distance keep their order.
std::vector<std::string> NearestNames(absl::string_view name,
                                      absl::Span<const std::string> candidates, size_t count);

// Returns the candidate nearest to `name`. Returns "" if there are no candidates, or if more than
// half of the characters of `name` would have to change.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace cohort
