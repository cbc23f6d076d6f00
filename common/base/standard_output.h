#pragma once

// A program's output to the process that started it, with an error if nobody can read it.

#include <string>

#include "common/base/status.h"

namespace cohort {

// Lets writing to a pipe or socket without a reader fail with an error, as on a full disk; by
// default it kills the process (SIGPIPE). First in main: threads and programs started later inherit
// it.
void IgnoreBrokenPipes();

// Writes all of `text` to stdout, through every buffer. Errors: those of write, naming stdout.
absl::Status WriteToStdout(const std::string& text);

}  // namespace cohort
