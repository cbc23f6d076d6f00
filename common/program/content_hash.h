#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

// 128 bits of `bytes` as 32 hexadecimal digits, the same on every machine. Not a defence against
// somebody who looks for collisions.
std::string ContentHash(absl::string_view bytes);

}  // namespace cohort
