#pragma once

// Output of a process to stdout, with an error if nobody can read the output.

#include <string>

#include "common/base/status.h"

namespace cohort {

// Makes two kinds of writes fail with an error, as a write to a full disk does: a write to a pipe
// or socket without a reader (EPIPE), and a write or ftruncate beyond the limit on the size of
// files (EFBIG). By default each kills the process without a word (SIGPIPE, SIGXFSZ). Call this
// function first in main, because threads and processes that are started later inherit the setting.
void IgnoreSignalsOfWrites();

// Opens /dev/null at each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file,
// socket or epoll instance that the process opens would get such a number, and output would go to
// it. Reading gives an empty input then, and writing fails. Call this function first in main.
void KeepStandardDescriptors();

// Writes all of `text` to stdout and flushes all buffers. Errors: the errors of write(), with
// "stdout" in the message; FAILED_PRECONDITION if stdout is closed.
absl::Status WriteToStdout(const std::string& text);

}  // namespace cohort
