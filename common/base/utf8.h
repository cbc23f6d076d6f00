#pragma once

// UTF-8 (RFC 3629).

#include <cstddef>

#include "absl/strings/string_view.h"

namespace cohort {

// Returns the number of bytes of the character with which `text`, which is not empty, begins; 0 if
// it begins with none.
size_t Utf8CharacterBytes(absl::string_view text);

// Returns whether `text` consists of characters alone.
bool IsUtf8(absl::string_view text);

}  // namespace cohort
