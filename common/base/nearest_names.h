#pragma once

// "Did you mean": the known names nearest to a mistyped one.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

// Insertions, deletions, substitutions and swaps of neighbours that turn one into the other
// (optimal string alignment). Names are compared by their first 64 bytes, so that a damaged file
// cannot make the work large.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns at most `count` candidates, nearest first, ignoring case; equally near ones keep their
// order.
std::vector<std::string> NearestNames(absl::string_view name,
                                      absl::Span<const std::string> candidates, size_t count);

// Returns the nearest candidate, or "" if none is near (if more than half of the name would
// change).
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace cohort
