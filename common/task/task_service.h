#pragma once

// The service that every ps and every worker offers besides its own service. Its calls are Attach
// (sets the coordinator and the epoch that the task serves), Watch (one call that is always open,
// so that the death of either end is noticed at once), GetStatus (tells who holds the task),
// Shutdown and Release. task_hold.h says which coordinator may attach a task. A takeover fails the
// old holder's open Watch with STALE.
//
// Watch also tells which pairs of tasks do not reach each other. Its answer lists the tasks that
// this task does not reach. Its request lists the tasks that do not reach this task, and this task
// logs them.
//
// A task is orphaned if, for a given time, no Watch has been open and no Attach has been accepted;
// the time starts to count when the task starts. A Watch from a coordinator that has vanished
// counts as open until its wait is over.

#include <memory>
#include <vector>

#include "common/task/task_state.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

// The fraction of a task's time to stop in which the task waits for the coordinator's Shutdown. The
// rest of the time is for the drain.
inline constexpr double kLeavePart = 0.8;

// The TaskService of one task. Thread-safe.
class TaskService {
 public:
  using Options = TaskOptions;

  TaskService(World world, Options options);
  ~TaskService();

  // Returns the service to register with a transport. The service keeps the state that it needs
  // alive.
  Service service();

  // Checks that a caller's epoch is the attached epoch. Errors: FAILED_PRECONDITION of class STALE
  // that names both epochs, with this task as origin.
  absl::Status CheckEpoch(uint64_t epoch) const;

  // Reports DRAINING to Watch from now on, and refuses Attach with UNAVAILABLE.
  void StartDraining();
  // Reports DRAINING like StartDraining. If the coordinator lets a stopping task go with Shutdown
  // (AttachRequest.lets_go), also tells Watch that the task keeps serving for `patience`.
  void StartLeaving(absl::Duration patience);
  // Blocks until the Shutdown call, for at most `patience`, if a living coordinator has heard of
  // the StartLeaving. Otherwise returns without waiting for the Shutdown call.
  void WaitToLeave(absl::Duration patience);

  // Replaces the set of peers that this task does not reach. Watch reports the set to the
  // coordinator at once.
  void SetUnreached(std::vector<proto::TaskRef> peers);

  // Answers all open Watch calls with UNAVAILABLE, and answers every later Watch and Attach with an
  // error at once.
  void Stop();

  proto::TaskRef task_ref() const;

 private:
  const std::shared_ptr<TaskState> state_;  // shared with open Watch calls
};

}  // namespace cohort
