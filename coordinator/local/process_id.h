#pragma once

// The identity of a process, different from that of every other process that this machine will ever
// run. A process number alone is not enough: the system gives it to another process once its own
// has ended.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace cohort {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // clock ticks from the boot to the start of the process
  std::string boot;         // boot id: tells the starts of the machine apart
};

inline bool operator==(const ProcessId& a, const ProcessId& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot == b.boot;
}

// Returns the identity of the process that has the number `pid` now. Errors: NOT_FOUND if there is
// no such process, or if it has ended and waits only for its parent; those of reading /proc.
absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid);

// Returns the start time, field 22 of the text of /proc/PID/stat. Errors: NOT_FOUND for a process
// that has ended; INVALID_ARGUMENT for other text.
absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat);

// Returns whether the process runs the program file that lies at this path now. False if the file
// was replaced since the process began, and for a process that is gone.
bool RunsProgram(pid_t pid, const std::string& program);

}  // namespace cohort
