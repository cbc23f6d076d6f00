#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cohort {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  // The process aborts without unwinding, because destructors could do more damage after a broken
  // guarantee.
  std::abort();
}

}  // namespace cohort
