#pragma once

// The service that every ps and worker offers beside its own: Attach (which coordinator and epoch
// it serves), Watch (the one call that is always open, so that the death of either end is noticed
// at once), GetStatus (who holds the task), Shutdown and Release. task_hold.h says who may attach a
// task. A takeover fails the open Watch of the old holder with STALE.
//
// Watch also carries which pairs of tasks do not reach each other: the answer lists the tasks that
// this one does not reach, and the request lists the tasks that do not reach this one, which it
// logs.
//
// A task is orphaned if no Watch has been open and no Attach was accepted for a given time, from
// its start on. The Watch of a coordinator that vanished counts until its wait is over.

#include <memory>
#include <vector>

#include "common/task/task_state.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

// The part of a task's time to end that it waits for the coordinator's word before it drains.
inline constexpr double kLeavePart = 0.8;

// Thread-safe.
class TaskService {
 public:
  using Options = TaskOptions;

  TaskService(World world, Options options);
  ~TaskService();

  // Returns the service to listen with. It keeps the state alive that it needs.
  Service service();

  // Refuses a caller whose epoch is not the attached one. Errors: FAILED_PRECONDITION of class
  // STALE naming both epochs, with this task as origin.
  absl::Status CheckEpoch(uint64_t epoch) const;

  // Reports DRAINING to Watch from now on, and refuses Attach with UNAVAILABLE.
  void StartDraining();
  // Reports DRAINING like StartDraining and, if the coordinator wants it (AttachRequest.lets_go),
  // tells Watch that the task serves on for `patience`.
  void StartLeaving(absl::Duration patience);
  // Blocks until Shutdown, for at most `patience`, after a StartLeaving of which a living
  // coordinator has heard; else not.
  void WaitToLeave(absl::Duration patience);

  // Sets all peers that this task does not reach now. Watch tells the coordinator at once.
  void SetUnreached(std::vector<proto::TaskRef> peers);

  // Answers what is open with UNAVAILABLE, and from now on everything at once.
  void Stop();

  proto::TaskRef task_ref() const;

 private:
  const std::shared_ptr<TaskState> state_;  // shared: open Watch calls hold it
};

}  // namespace cohort
