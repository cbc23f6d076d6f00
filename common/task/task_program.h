#pragma once

// The part that the programs ps and worker share, from the command line to the exit code.

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

// Reads the command line, answers --help and its like, and otherwise calls `serve`. Returns the
// exit code. Called by main before threads start.
int RunTaskProgram(Role role, const std::vector<std::string>& arguments,
                   const std::function<int(const RoleOptions&)>& serve);

// Differs from start to start, on one machine by the process id even within one tick of the clock.
uint64_t NewIncarnation(const Clock& clock);

// A task, put together, that does not listen yet.
struct ServedTask {
  uint64_t incarnation = 0;
  std::function<absl::StatusOr<std::string>()> start;  // the bound address
  std::function<void(absl::Duration grace)> drain;
  const std::atomic<bool>* orphaned = nullptr;  // given; true before the Wake that says so
};

// Listens, announces the address, waits for a signal or a Wake, says why, and drains. The exit
// code; but where calls outlive the drain the process ends here: they would lose the world under
// them.
int ServeUntilStopped(const RoleOptions& options, const ServedTask& task, const Clock& clock,
                      FileSystem& files, SignalWaiter& signals);

}  // namespace cohort
