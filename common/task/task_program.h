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
#include "common/cluster/role_options.h"
#include "common/cluster/signals.h"
#include "common/wire/world.h"

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
int ServeUntilStopped(const RoleOptions& options, const ServedTask& task, const World& world,
                      SignalWaiter& signals);

// Makes a PsTask or a WorkerTask with what `options` says for each kind of task, and runs the task
// until it is stopped. Returns the exit code.
template <typename Task>
int ServeTask(const RoleOptions& options, typename Task::Options task_options, const World& world,
              SignalWaiter& signals) {
  std::atomic<bool> orphaned{false};
  task_options.task = options.task;
  task_options.listen_address = options.listen_address;
  task_options.incarnation = NewIncarnation(world.clock);
  // Both callbacks only wake the waiting main thread, since the threads that run them must not
  // block.
  task_options.on_shutdown = [&signals] { signals.Wake(); };
  task_options.orphan_timeout = options.orphan_timeout;
  task_options.on_orphaned = [&signals, &orphaned] {
    // The flag is set before the wake-up, because the waiting thread reads it.
    orphaned = true;
    signals.Wake();
  };
  Task task(world, task_options);
  const ServedTask served = {task_options.incarnation, [&task] { return task.Start(); },
                             [&task](absl::Duration grace) { task.Drain(grace); }, &orphaned};
  return ServeUntilStopped(options, served, world, signals);
}

}  // namespace cohort
