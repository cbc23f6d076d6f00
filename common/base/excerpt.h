#pragma once

// An error message quotes foreign text, such as the content of a file, as an excerpt. The excerpt
// is long enough for a reader to find the place in the text, and short enough that it neither hides
// the point of the message nor reveals the content of the file.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr size_t kExcerptBytesMax = 64;

// Returns the beginning of `text` as at most kExcerptBytesMax printable ASCII bytes. Bytes that are
// not printable are written as \xNN. The result ends in "..." if a part of `text` was left out.
std::string Excerpt(absl::string_view text);

}  // namespace cohort
