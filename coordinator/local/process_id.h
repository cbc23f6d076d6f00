#pragma once

// The identity of a process, which no other process on this machine ever has. The process number
// alone is not enough: when a process has ended, the system may give its number to another one.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace cohort {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // when the process began, in clock ticks since the boot
  std::string boot;         // id of the boot; each boot of the machine has another one
};

inline bool operator==(const ProcessId& a, const ProcessId& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot == b.boot;
}

// Returns the identity of the process with the number `pid`. Errors: NOT_FOUND if there is no such
// process, or if it has ended and is only waiting to be reaped by its parent; errors of reading
// /proc.
absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid);

// Returns the start time of a process from `stat`, the text of its file /proc/PID/stat (field 22).
// Errors: NOT_FOUND if the text says that the process has ended; INVALID_ARGUMENT for any other
// text.
absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat);

// Returns whether the process runs the program file that is now at the path `program`. Returns
// false if the file was replaced since the process began, or if the process has ended.
bool RunsProgram(pid_t pid, const std::string& program);

}  // namespace cohort
