#pragma once

// Checks of the limits and settings of this process, made before a program starts anything.

#include "absl/status/status.h"
#include "common/cluster/environment.h"

namespace cohort {

// The number of files that a task of a small cluster has open at once, plus a reserve.
inline constexpr int kOpenFilesMin = 64;

// Raises the process's soft limit on open files to the hard limit. Errors: RESOURCE_EXHAUSTED that
// names the limit and `ulimit -n`, if fewer than kOpenFilesMin files may be open (exit code
// kExitCannotListen).
absl::Status RaiseOpenFiles();

// Checks that this process can open one more file now. Errors: RESOURCE_EXHAUSTED that names the
// exhausted limit on open files.
absl::Status CheckOpenFilesLeft();

// Checks the variable GRPC_POLL_STRATEGY. Errors: FAILED_PRECONDITION for a strategy other than
// epoll1, because other strategies do not wake the threads that wait for gRPC's events (exit code
// kExitBadConfig).
absl::Status CheckPollStrategy(const Environment& environment);

}  // namespace cohort
