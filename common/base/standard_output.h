#pragma once

// Output of a process to stdout, with an error if nobody can read the output.

#include <string>

#include "common/base/status.h"

namespace cohort {

// Makes a write to a pipe or socket without a reader fail with an error, as a write to a full disk
// does. By default such a write kills the process (SIGPIPE). Call this function first in main,
// because threads and processes that are started later inherit the setting.
void IgnoreBrokenPipes();

// Writes all of `text` to stdout and flushes all buffers. Errors: the errors of write(), with
// "stdout" in the message.
absl::Status WriteToStdout(const std::string& text);

}  // namespace cohort
