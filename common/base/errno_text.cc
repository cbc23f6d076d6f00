#include "common/base/errno_text.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cohort {

std::string ErrnoText(int error_number) {
  std::string text = std::strerror(error_number);
  rlimit limit = {};
  if (error_number != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0) return text;
  // Without a limit of the process, only the file system can have refused the size.
  if (limit.rlim_cur == RLIM_INFINITY) return absl::StrCat(text, " for this file system");
  return absl::StrCat(text, ": a file of this process may have ", limit.rlim_cur,
                      " bytes (ulimit -f); raise the limit");
}

}  // namespace cohort
