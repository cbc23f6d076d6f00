#pragma once

// COHORT_CHECK tests a condition that Cohort's own code must guarantee, and ends the process if the
// condition is false. The macro stays on in release builds. It is never used on a peer's message, a
// file or a flag: code that reads such input returns a Status.

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
