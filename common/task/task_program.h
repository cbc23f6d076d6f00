#pragma once

// The code that the daemons ps and worker share, from the command line to the exit code.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/file_system.h"
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"

namespace cohort {

// Parses the command line, answers --help and similar flags, and otherwise calls `serve`. Returns
// the exit code. Main calls this function before threads start.
int RunTaskProgram(Role role, const std::vector<std::string>& arguments,
                   const std::function<int(const RoleOptions&)>& serve);

// Returns a number for this process that differs in every start of a process. The number depends on
// the process id, so it is unique on one machine even within one tick of the clock.
uint64_t NewIncarnation(const Clock& clock);

// The functions through which ServeUntilStopped runs a task. The task's objects exist already, but
// the task does not listen for calls before `start` is called.
struct ServedTask {
  uint64_t incarnation = 0;
  // Starts to listen and returns the bound address.
  std::function<absl::StatusOr<std::string>()> start;
  std::function<void(absl::Duration grace)> drain;
  // True if the task ends because it is orphaned; set before SignalWaiter::Wake is called. Not
  // null.
  const std::atomic<bool>* orphaned = nullptr;
};

// Runs a task until it is stopped: listens, announces the address, waits for a signal or a Wake,
// logs the reason, and drains the open calls. Returns the exit code. If calls are still open after
// the drain, the process exits here, because the objects that those calls use are about to be
// destroyed.
int ServeUntilStopped(const RoleOptions& options, const ServedTask& task, const Clock& clock,
                      FileSystem& files, SignalWaiter& signals);

}  // namespace cohort
