#pragma once

// What every JSON text that a person wrote goes through before it is read: a parser that keeps
// quiet about repeated keys and about where an error is would make a bad file hard to mend.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Errors: INVALID_ARGUMENT with line and column of the first syntax error, or with the path of each
// key that one object has twice.
absl::Status CheckJsonText(absl::string_view text);

}  // namespace cohort
