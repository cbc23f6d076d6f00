#pragma once

// Checks of what a program needs from its process, made before anything is started.

#include "absl/status/status.h"
#include "common/cluster/environment.h"

namespace cohort {

// The number of files that a task of a small cluster has open at once, with some to spare.
inline constexpr int kOpenFilesMin = 64;

// Raises the soft limit of open files to the hard one. Errors: RESOURCE_EXHAUSTED naming the limit
// and `ulimit -n`, where fewer than kOpenFilesMin may be open (kExitCannotListen).
absl::Status RaiseOpenFiles();

// Errors: RESOURCE_EXHAUSTED naming the limit, where this process cannot open another file now.
absl::Status CheckOpenFilesLeft();

// Errors: FAILED_PRECONDITION for a GRPC_POLL_STRATEGY other than epoll1, under which the threads
// that wait for gRPC's events are not woken (kExitBadConfig).
absl::Status CheckPollStrategy(const Environment& environment);

}  // namespace cohort
