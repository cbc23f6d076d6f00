#pragma once

// The limits and settings of this process, which main checks and sets before it starts anything.

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/cluster/environment.h"

namespace cohort {

// The smallest limit on open files with which a task starts: what a task of a small cluster needs,
// plus a reserve.
inline constexpr int kOpenFilesMin = 64;

// Raises the process's soft limit on open files to the hard limit. Errors: RESOURCE_EXHAUSTED that
// names the limit and `ulimit -n`, if fewer than kOpenFilesMin files may be open (exit code
// kExitCannotListen).
absl::Status RaiseOpenFiles();

// Checks that this process can open one more file now. Errors: RESOURCE_EXHAUSTED that names the
// exhausted limit on open files and this process, for which IsOutOfFiles holds.
absl::Status CheckOpenFilesLeft();

// Returns the error of this process that its limit on open files is exhausted.
absl::Status OutOfFiles(absl::string_view text);
// Returns whether it is this process that has no files left to open, and not the peer of a failed
// call. Holds only in the process itself: the mark does not travel with the error.
bool IsOutOfFiles(const absl::Status& status);

// Checks the variable GRPC_POLL_STRATEGY. Errors: FAILED_PRECONDITION for a strategy other than
// epoll1, because other strategies do not wake the threads that wait for gRPC's events (exit code
// kExitBadConfig).
absl::Status CheckPollStrategy(const Environment& environment);

// Sets up malloc for large messages. Large buffers stay on the heap and are not returned to the
// kernel after each message, because fresh pages cost up to half of the receive rate. The process
// gets one heap for each core instead of malloc's eight: otherwise memory that one thread allocates
// and another thread frees, such as the memory of a closure, would pile up in more and more heaps.
// Main calls this function before threads start.
void TuneAllocator();

}  // namespace cohort
