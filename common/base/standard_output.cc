#include "common/base/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace cohort {

void IgnoreSignalsOfWrites() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void KeepStandardDescriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(standard, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() takes the lowest number that is free. Those below `standard` are in use, so it takes
    // `standard`. A write to what is open for reading only fails, as it does if nothing is open.
    [[maybe_unused]] const int opened = open("/dev/null", O_RDONLY);
  }
}

absl::Status WriteToStdout(const std::string& text) {
  // The C library may report a failed write without setting errno. Such a failure is returned as
  // EIO.
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) return absl::OkStatus();
  if (errno == EBADF) return absl::FailedPreconditionError("stdout is closed");
  return ErrnoStatus(errno == 0 ? EIO : errno, "cannot write to stdout");
}

}  // namespace cohort
