#pragma once

// The excerpt that an error message quotes from a file or from other foreign text: long enough to
// find the place in the text, and short enough that the excerpt neither hides the point of the
// message nor reveals the content of the file.

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr size_t kExcerptBytesMax = 64;

// Returns the beginning of `text` as at most kExcerptBytesMax printable ASCII bytes. Bytes that are
// not printable are written as \xNN. The result ends in "..." if a part of `text` was left out.
std::string Excerpt(absl::string_view text);

}  // namespace cohort
