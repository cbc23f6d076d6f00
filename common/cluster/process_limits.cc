#include "common/cluster/process_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/file_system.h"
#include "common/base/machine.h"

namespace cohort {

namespace {

constexpr char kPollStrategy[] = "GRPC_POLL_STRATEGY";
// The key of the Status payload that marks errors of this process. Transports do not send it.
constexpr absl::string_view kOutOfFilesUrl = "cohort/out_of_files";

// Returns the name of the program that this process runs, such as "worker".
std::string ProgramName() { return BaseName(ExecutablePath()); }

std::string OpenFilesLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "an unknown number of";
  return absl::StrCat(limit.rlim_cur);
}

constexpr int kMmapThresholdBytes = 1 << 30;
constexpr int kTrimThresholdBytes = 1 << 30;
constexpr int kTopPadBytes = 64 << 20;

}  // namespace

absl::Status RaiseOpenFiles() {
  rlimit limit = {};
  // If the limit on open files cannot be read, the process starts: opening files may succeed.
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= static_cast<rlim_t>(kOpenFilesMin)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "this process may have ", OpenFilesLimit(), " files open (ulimit -n), and needs ",
      kOpenFilesMin, " and more with every task of its cluster; raise the limit"));
}

absl::Status CheckOpenFilesLeft() {
  // Opening a file also shows whether the limit of the whole system on open files is exhausted.
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    close(file);
    return absl::OkStatus();
  }
  if (errno != EMFILE && errno != ENFILE) return absl::OkStatus();
  // open() fails with EMFILE at the limit of this process and with ENFILE at the limit of the
  // system.
  const bool own = errno == EMFILE;
  return OutOfFiles(own ? absl::StrCat("all ", OpenFilesLimit(), " files that the ", ProgramName(),
                                       " (process ", getpid(), " on host ", HostName(),
                                       ") may have open are in use; raise its limit (ulimit -n)")
                        : absl::StrCat("all files that the system of host ", HostName(),
                                       " may have open are in use; raise fs.file-max there"));
}

absl::Status OutOfFiles(absl::string_view text) {
  absl::Status status = absl::ResourceExhaustedError(text);
  status.SetPayload(kOutOfFilesUrl, absl::Cord());
  return status;
}

bool IsOutOfFiles(const absl::Status& status) {
  return status.GetPayload(kOutOfFilesUrl).has_value();
}

absl::Status CheckPollStrategy(const Environment& environment) {
  const std::string value = environment(kPollStrategy).value_or("");
  // GRPC_POLL_STRATEGY may hold a list. gRPC takes the first strategy of the list that the system
  // has, and "all" begins with epoll1.
  const std::string first = value.substr(0, value.find(','));
  if (first.empty() || first == "epoll1" || first == "all") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(kPollStrategy, "=", value,
                   ": under this strategy calls are not answered; use epoll1, or unset it"));
}

void TuneAllocator() {
  // The results of mallopt() are ignored: a C library may refuse a value, and the values affect
  // only speed.
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, kTrimThresholdBytes);
  // The heap grows by 64 MiB at a time, so that it grows rarely.
  mallopt(M_TOP_PAD, kTopPadBytes);
  mallopt(M_ARENA_MAX, std::max(2, ProcessorCount()));
}

}  // namespace cohort
