#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cohort {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  // A failed check aborts the process without running destructors. The process can no longer rely
  // on what the check guarantees, so destructors could do more damage.
  std::abort();
}

}  // namespace cohort
