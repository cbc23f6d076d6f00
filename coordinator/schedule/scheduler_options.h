#pragma once

// The options of a scheduler, and the counters that it keeps.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/worker.pb.h"

namespace cohort {

// The consequence of a quarantined closure for the job. In both cases, the closure's own result is
// an error.
enum class Quarantine {
  kFail,  // the job gets the closure's error, as for any closure that fails
  kSkip,  // the job goes on without the closure, which is logged and counted in SchedulerStats
};

// The options of a scheduler that a user's program chooses (ClusterCoordinatorOptions).
struct ScheduleLimits {
  // The maximum number of closures that have not ended. The default is TensorFlow's.
  size_t queue_bound = 262144;
  int closures_in_flight = 2;          // closures that one worker holds at once (K slots)
  uint64_t shared_memory = 0;          // value of Gang.shared_memory, for gangs of several workers
  std::optional<int32_t> nccl_device;  // value of Gang.nccl_device, for gangs of several workers
  uint32_t attempts_max = 10;          // number of faults (attempts.h) at which a closure fails
  // A closure is quarantined, which means that it does not run again, once worker processes have
  // ended with it in this number of attempts (attempts.h).
  size_t quarantine_after = 3;
  Quarantine quarantine = Quarantine::kFail;
  // If true, no queued closure starts once an error is recorded. If false, queued closures start
  // until a call observes the error, as in TensorFlow.
  bool stop_at_first_error = true;
  absl::Duration closure_timeout = absl::Minutes(10);
};

struct SchedulerOptions : ScheduleLimits {
  uint64_t epoch = 0;
  int gang_size = 1;           // number of workers that run a gang, if all are in step
  std::set<int> gang_workers;  // first members of gangs; if empty, workers 0 to gang_size - 1
  int gang_min = 1;            // minimum number of members in step for a gang to run
  // Bounded staleness: a closure starts only if its last step is at most `steps_ahead_max` ids
  // ahead of the oldest closure that has not ended. So a closure reads the effects of all closures
  // that are more than `steps_ahead_max` ids older.
  uint64_t steps_ahead_max = std::numeric_limits<uint64_t>::max();
  // The time for which a worker may leave set-up calls in a row unanswered. After that, the closure
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

struct SchedulerStats {
  uint64_t done = 0;
  uint64_t put_back = 0;
  uint64_t failed = 0;
  uint64_t quarantined = 0;  // quarantined closures, which `failed` also counts
  uint64_t replayed = 0;     // closures that were done again after a restore
  uint64_t recoveries = 0;   // number of restores
  uint64_t checkpoints = 0;  // number of committed recovery checkpoints
  size_t queued = 0;         // closures that are queued or wait for their arguments
  size_t in_flight = 0;
  int workers_ready = 0;
  // The sums of the step times that workers reported for closures that were done.
  proto::StepTimes times;
  std::string ToString() const;
};

// The counters that a scheduler keeps for one worker.
struct WorkerStats {
  bool ready = false;
  int in_flight = 0;
  uint64_t done = 0;  // closures done by all processes of the worker so far
};

}  // namespace cohort
