#pragma once

// Options of a scheduler, and its counters.

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

// The effect of a quarantined closure on the job. The closure's own result is an error with either
// choice.
enum class Quarantine {
  kFail,  // the job gets the error, as for any failed closure
  kSkip,  // the job goes on without the closure; Stats and the log count it
};

// The part of a scheduler's options that a program chooses (ClusterCoordinatorOptions).
struct ScheduleLimits {
  size_t queue_bound = 262144;  // upper bound of unfinished closures, with TensorFlow's default
  int closures_in_flight = 2;   // K, the closures that a worker holds at once
  uint64_t shared_memory = 0;   // value of Gang.shared_memory, for gangs of several workers
  std::optional<int32_t> nccl_device;  // value of Gang.nccl_device, for gangs of several workers
  uint32_t attempts_max = 10;          // the number of faults at which a closure fails
  // The number of attempts in which worker processes ended with the closure, at which the closure
  // is quarantined, which means not run again (attempts.h).
  size_t quarantine_after = 3;
  Quarantine quarantine = Quarantine::kFail;
  // True if an error stops the queue at once. If false, the queue stops when a call observes the
  // error, as in TensorFlow.
  bool stop_at_first_error = true;
  absl::Duration closure_timeout = absl::Minutes(10);
};

struct SchedulerOptions : ScheduleLimits {
  uint64_t epoch = 0;
  int gang_size = 1;           // workers that run a gang closure; fewer if some are out of step
  std::set<int> gang_workers;  // the first members of gangs; if empty, the workers below gang_size
  int gang_min = 1;            // gangs of several workers wait while fewer members are in step
  // Bounded staleness: a closure starts only when its last step is at most `steps_ahead_max` ids
  // ahead of the oldest closure that has not ended. So a closure reads the effect of every closure
  // that is more than `steps_ahead_max` ids older.
  uint64_t steps_ahead_max = std::numeric_limits<uint64_t>::max();
  // How long a running worker may leave set-up calls unanswered before the closure that needs them
  // fails.
  absl::Duration setup_timeout = absl::Seconds(60);
  // The number of steps of closures that are kept until they are durable, to run again after a
  // restore. A full log asks for a checkpoint, and then holds Schedule back. With 0 nothing is
  // kept, and nothing is recovered.
  size_t redo_max = 0;
  // The number of steps done after which a checkpoint is due. With 0 only a full log asks for a
  // checkpoint.
  size_t checkpoint_every = 0;
  // Tells that a checkpoint is due. Runs outside the lock, must not block; may be called
  // repeatedly.
  std::function<void()> on_checkpoint_due;
  // Tells that a worker could not reach this ps. Runs outside the lock, must not block.
  std::function<void(int ps)> on_ps_suspect;
  // Tells every ps that each closure below `watermark` has ended, so that no push of these closures
  // is applied any more. Calls `done` when every ps has confirmed. Runs outside the lock, must not
  // block.
  std::function<void(uint64_t watermark, absl::AnyInvocable<void(absl::Status)> done)> fence;
  // Makes every ps refuse what a lost worker may still push in these sessions
  // (RunClosureRequest.session). Calls `done` as `fence` does. Runs outside the lock, must not
  // block.
  std::function<void(const std::set<uint64_t>& sessions,
                     absl::AnyInvocable<void(absl::Status)> done)>
      fence_worker;
  // Tells, for gangs of several workers, which workers are out of step
  // (coordinator/recovery/copies.h). `workers` maps a worker's index to the session by which its
  // late pushes are fenced, or to 0. Gangs run on the other members until InStep. Runs outside the
  // lock, before any other effect, and must not block.
  std::function<void(const std::map<int, uint64_t>& workers, const absl::Status& cause)>
      on_out_of_step;
  // Tells that a worker's call failed in a way that makes the worker a suspect. Runs outside the
  // lock, must not block.
  std::function<void(int worker, uint64_t incarnation)> on_suspect;
};

struct SchedulerStats {
  uint64_t done = 0;
  uint64_t put_back = 0;
  uint64_t failed = 0;
  uint64_t quarantined = 0;  // number of quarantined closures, which `failed` counts as well
  uint64_t replayed = 0;     // number of closures done once more after a restore
  uint64_t recoveries = 0;   // number of restores
  uint64_t checkpoints = 0;  // number of committed recovery checkpoints
  size_t queued = 0;         // closures that are queued or wait for arguments
  size_t in_flight = 0;
  int workers_ready = 0;
  proto::StepTimes times;  // sums of the step times in the answers of closures that were done
  std::string ToString() const;
};

// Counters of one worker.
struct WorkerStats {
  bool ready = false;
  int in_flight = 0;
  uint64_t done = 0;  // closures done by all processes of the worker
};

}  // namespace cohort
