#pragma once

// COHORT_CHECK is for what a caller inside this program must guarantee. It stays on in release
// builds, and it is never used on a peer's message, a file or a flag: those return a Status.

namespace cohort {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const char* message);

}  // namespace cohort

#define COHORT_CHECK(condition, message)                              \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      ::cohort::CheckFailed(__FILE__, __LINE__, #condition, message); \
    }                                                                 \
  } while (false)
