#pragma once

// A process, told apart from every other that this machine will ever run: a number alone is given
// to another process once its own has ended.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace cohort {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // clock ticks from the machine's start to the process's
  std::string boot;         // which start of the machine
};

inline bool operator==(const ProcessId& a, const ProcessId& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot == b.boot;
}

// Returns the process that has this number now. Errors: NOT_FOUND if there is none, or if it has
// ended and waits only for its parent; those of reading /proc.
absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid);

// Returns field 22 of the text of /proc/PID/stat. Errors: NOT_FOUND for a process that has ended;
// INVALID_ARGUMENT for other text.
absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat);

// Returns whether the process runs the program that lies at this path now: a file that was replaced
// since is another one. False for a process that is gone.
bool RunsProgram(pid_t pid, const std::string& program);

}  // namespace cohort
