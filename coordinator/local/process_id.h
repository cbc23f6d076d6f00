#pragma once

// An identity that no other process on this machine will ever have. The process number alone is not
// enough: when the process has ended, the system may give its number to another one.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace cohort {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // clock ticks from the boot to the start of the process
  std::string boot;         // boot id, which changes with each boot of the machine
};

inline bool operator==(const ProcessId& a, const ProcessId& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot == b.boot;
}

// Returns the identity of the process with the number `pid`. Errors: NOT_FOUND if there is no such
// process, or if it has ended and only its parent has yet to reap it; errors of reading /proc.
absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid);

// Returns the start time, field 22 of the text of /proc/PID/stat. Errors: NOT_FOUND for a process
// that has ended; INVALID_ARGUMENT for other text.
absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat);

// Returns whether the process runs the program file that is at this path now. Returns false if the
// file was replaced since the process began, or if the process has ended.
bool RunsProgram(pid_t pid, const std::string& program);

}  // namespace cohort
