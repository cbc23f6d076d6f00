#pragma once

// "Did you mean": the known name nearest to a mistyped one.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

// Insertions, deletions, substitutions and swaps of neighbours that turn one into the other.
int EditDistance(absl::string_view a, absl::string_view b);

// The first of the nearest, case ignored; empty when `known` is.
std::string NearestName(absl::string_view name, absl::Span<const std::string> known);

// "; the nearest known key is 'epochs' (known: batch_size, epochs)".
std::string SuggestKey(absl::string_view name, absl::Span<const std::string> known);

}  // namespace cohort
