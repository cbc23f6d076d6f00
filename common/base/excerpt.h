#pragma once

// What an error quotes of a file, or of anything else that somebody else has written: enough to
// find the place, and never so much that a message hides its point or tells what the file holds.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr size_t kExcerptBytesMax = 64;

// The beginning of `text` in at most kExcerptBytesMax printable ASCII bytes; others are written as
// \xNN. Where something is left out it ends in "...".
std::string Excerpt(absl::string_view text);

}  // namespace cohort
