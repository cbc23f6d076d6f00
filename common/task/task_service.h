#pragma once

// The service TaskService, which every ps and every worker offers besides its own service. The
// calls of TaskService are Attach (sets the coordinator and the epoch that the task serves), Watch
// (the coordinator always keeps one Watch open, so that each end notices at once if the other end
// dies), GetStatus (tells which coordinator holds the task), Shutdown and Release. task_hold.h says
// which coordinator may attach to a task. When another coordinator takes the task over, the open
// Watch of the old holder fails with STALE.
//
// Watch also tells which pairs of tasks do not reach each other. The answer of a Watch lists the
// tasks that this task does not reach. The request of a Watch lists the tasks that do not reach
// this task, and this task logs them.
//
// A task is orphaned if, for a given time, no Watch has been open and no Attach has been accepted.
// The time starts to count when the task starts. A Watch from a coordinator that has vanished
// counts as open until the time that the Watch may wait is over.

#include <memory>
#include <vector>

#include "common/task/task_state.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/task.pb.h"

namespace cohort {

// The part of a stopping task's time in which the task waits for Shutdown from the coordinator. In
// the rest of that time, the task drains its open calls.
inline constexpr double kLeavePart = 0.8;

// The TaskService of one task. Thread-safe.
class TaskService {
 public:
  using Options = TaskOptions;

  TaskService(World world, Options options);
  ~TaskService();

  // Returns the service to register with a transport. The service may outlive the TaskService.
  Service service();

  // Checks that the epoch of a call is the attached epoch, that of the last coordinator that
  // attached. Errors: FAILED_PRECONDITION of class STALE that names both epochs, with this task as
  // origin.
  absl::Status CheckEpoch(uint64_t epoch) const;

  // Tells the coordinator through Watch that this task is DRAINING, and refuses every later Attach
  // with UNAVAILABLE. Watch also tells the coordinator that the task keeps serving for `patience`,
  // if the coordinator has promised to end a stopping task with Shutdown (AttachRequest.lets_go)
  // and its lease has not ended.
  void StartLeaving(absl::Duration patience);
  // Blocks for at most `patience` until the coordinator calls Shutdown. Returns early if the
  // coordinator does not acknowledge through Watch, within a second, that the task is leaving.
  // Returns at once if StartLeaving has not told the coordinator that the task keeps serving.
  void WaitToLeave(absl::Duration patience);

  // Replaces the set of peers that this task does not reach. Watch reports the set to the
  // coordinator at once.
  void SetUnreached(std::vector<proto::TaskRef> peers);

  // Answers all open Watch calls with UNAVAILABLE. From now on, every Watch and every Attach gets
  // an error at once.
  void Stop();

  proto::TaskRef task_ref() const;

 private:
  const std::shared_ptr<TaskState> state_;  // state of the task, shared with open Watch calls
};

}  // namespace cohort
