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

// The effect of a quarantined closure on the others. Its own result is the error in both cases.
enum class Quarantine {
  kFail,  // an error like any other
  kSkip,  // the job goes on without it; Stats and the log count it
};

struct SchedulerOptions {
  uint64_t epoch = 0;
  size_t queue_bound = 262144;         // TensorFlow's
  int closures_in_flight = 2;          // K, per worker
  int gang_size = 1;                   // workers that run a gang closure: all that are in step
  std::set<int> gang_workers;          // they, of several, at first; empty: those below gang_size
  int gang_min = 1;                    // for gangs of several: with fewer in step they wait
  uint64_t shared_memory = 0;          // for gangs of several workers: Gang.shared_memory
  std::optional<int32_t> nccl_device;  // for such gangs: Gang.nccl_device
  // Bounded staleness: a closure starts only when its last step is at most so many ids ahead of the
  // oldest one that has not ended. So what was scheduled more than that before it is in what it
  // reads.
  uint64_t steps_ahead_max = std::numeric_limits<uint64_t>::max();
  uint32_t attempts_max = 10;  // for one closure
  // A closure that ended together with so many worker processes is quarantined: not run again.
  size_t quarantine_after = 3;
  // Whether an error stops the queue at once or, as in TensorFlow, when a call observes it.
  bool stop_at_first_error = true;
  Quarantine quarantine = Quarantine::kFail;
  // How long a worker that is there may leave set-up calls unanswered.
  absl::Duration setup_timeout = absl::Seconds(60);
  absl::Duration closure_timeout = absl::Minutes(10);
  // Steps of closures that are kept until they are durable, to run again after a restore; a
  // full log asks for a checkpoint and then holds Schedule back. 0: none, nothing is recovered.
  size_t redo_max = 0;
  // Steps of closures done since the last snapshots; 0: only a full log asks.
  size_t checkpoint_every = 0;
  // Runs outside the lock, must not block; may be repeated.
  std::function<void()> on_checkpoint_due;
  // Tells that a worker could not reach this ps; runs outside the lock, must not block.
  std::function<void(int ps)> on_ps_suspect;
  // Tells every ps that each closure below `watermark` has ended, so that none of its pushes is
  // applied any more, and says when all of them know. Runs outside the lock, must not block.
  std::function<void(uint64_t watermark, absl::AnyInvocable<void(absl::Status)> done)> fence;
  // Fences all that a lost worker may still push in these sessions (RunClosureRequest.session),
  // like `fence`.
  std::function<void(const std::set<uint64_t>& sessions,
                     absl::AnyInvocable<void(absl::Status)> done)>
      fence_worker;
  // Tells, with gangs of several workers, which are out of step (coordinator/recovery/copies.h), by
  // index, with the session by which their late pushes are fenced, or 0. Gangs run on the others
  // until InStep. Runs outside the lock, before anything else does, and must not block.
  std::function<void(const std::map<int, uint64_t>& workers, const absl::Status& cause)>
      on_out_of_step;
  // Tells that a worker's call failed in a way that makes it a suspect; runs outside the lock, must
  // not block.
  std::function<void(int worker, uint64_t incarnation)> on_suspect;
};

struct SchedulerStats {
  uint64_t done = 0;
  uint64_t put_back = 0;
  uint64_t failed = 0;
  uint64_t quarantined = 0;  // among the failed
  uint64_t replayed = 0;     // done once more after a restore
  uint64_t recoveries = 0;   // restores
  uint64_t checkpoints = 0;  // committed ones, for recovery
  size_t queued = 0;         // or waiting for its arguments
  size_t in_flight = 0;
  int workers_ready = 0;
  proto::StepTimes times;  // sums over the answers of closures that were done
  std::string ToString() const;
};

// Counters of one worker.
struct WorkerStats {
  bool ready = false;
  int in_flight = 0;
  uint64_t done = 0;  // closures, by all of its processes
};

}  // namespace cohort
