#pragma once

// The part that an error quotes of a file, or of any text that somebody else has written: enough to
// find the place, and never so much that a message hides its point or reveals what the file holds.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr size_t kExcerptBytesMax = 64;

// Returns the beginning of `text` as at most kExcerptBytesMax printable ASCII bytes; other bytes
// are written as \xNN. The result ends in "..." if something was left out.
std::string Excerpt(absl::string_view text);

}  // namespace cohort
