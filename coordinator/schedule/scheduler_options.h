#pragma once

// The options of a scheduler.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/schedule/schedule_limits.h"

namespace cohort {

struct SchedulerOptions : ScheduleLimits {
  uint64_t epoch = 0;
  int gang_size = 1;           // number of workers that run a gang, if all are in step
  std::set<int> gang_workers;  // first members of gangs; if empty, workers 0 to gang_size - 1
  int gang_min = 1;            // minimum number of members in step for a gang to run
  // Bounded staleness: a closure starts only if its last step is at most `steps_ahead_max` ids
  // ahead of the oldest closure that has not ended. So a closure reads the effects of all closures
  // that are more than `steps_ahead_max` ids older.
  uint64_t steps_ahead_max = std::numeric_limits<uint64_t>::max();
  // How long a worker may leave set-up calls in a row unanswered. After that, the closure
  // that needs the calls fails.
  absl::Duration setup_timeout = absl::Seconds(60);
  // The capacity of the redo log in steps of closures. The log keeps closures until they are
  // durable, so that they can run again after a restore. If the log is full, the scheduler asks for
  // a checkpoint and admits no more closures. If 0, nothing is kept, and nothing can be recovered.
  size_t redo_max = 0;
  // The number of steps done after which the scheduler asks for a checkpoint. If 0, only a full
  // redo log makes it ask.
  size_t checkpoint_every = 0;
  // Called when a checkpoint is due, perhaps several times for one checkpoint. Runs outside the
  // lock; must not block.
  std::function<void()> on_checkpoint_due;
  // Called when a worker could not reach parameter server `ps`. Runs outside the lock; must not
  // block.
  std::function<void(int ps)> on_ps_suspect;
  // Tells every ps that each closure with an id below `watermark` has ended, so that pushes of
  // these closures are refused from now on. Calls `done` once every ps has confirmed, or with an
  // error. Runs outside the lock; must not block.
  std::function<void(uint64_t watermark, absl::AnyInvocable<void(absl::Status)> done)> fence;
  // Makes every ps refuse what workers still push in these sessions (RunClosureRequest.session).
  // Calls `done` once every ps has confirmed, or with an error. Runs outside the lock; must not
  // block.
  std::function<void(const std::set<uint64_t>& sessions,
                     absl::AnyInvocable<void(absl::Status)> done)>
      fence_worker;
  // Called, for gangs of several workers, when workers get out of step
  // (coordinator/recovery/copies.h). `workers` maps a worker's index to the session by which its
  // late pushes must be fenced, or to 0 if there are none. Gangs run on the other members until
  // InStep. Runs outside the lock and before any other effect; must not block.
  std::function<void(const std::map<int, uint64_t>& workers, const absl::Status& cause)>
      on_out_of_step;
  // Called when a call to a worker has failed in a way that makes the worker a suspect. Runs
  // outside the lock; must not block.
  std::function<void(int worker, uint64_t incarnation)> on_suspect;
};

}  // namespace cohort
