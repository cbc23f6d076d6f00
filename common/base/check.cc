#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cohort {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  // A failed check aborts the process without running destructors, which could do more damage to a
  // program whose guarantees are broken.
  std::abort();
}

}  // namespace cohort
