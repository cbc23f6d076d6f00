#include "common/base/standard_output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace cohort {

void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

absl::Status WriteToStdout(const std::string& text) {
  // The C library may report a failed write without setting errno. Such a failure is returned as
  // EIO.
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) return absl::OkStatus();
  return ErrnoStatus(errno == 0 ? EIO : errno, "cannot write to stdout");
}

}  // namespace cohort
