#pragma once

// What the command lines of all three programs share.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"

namespace cohort {

// The answer of a command line that asks for text instead of a run: print it to stdout and exit.
struct PrintAndExit {
  std::string text;  // ends with a newline
  int exit_code = 0;
};

// "debug", "info", "warning", "error".
const char* LogLevelName(LogLevel level);
// Errors: INVALID_ARGUMENT naming the four.
absl::StatusOr<LogLevel> LogLevelFromName(absl::string_view name);

// "ps (Cohort) 0.1.0\n"
std::string VersionText(absl::string_view program);

// "'colour' is unknown; did you mean 'color'?" or, when none is near, "...; known are a, b".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace cohort
