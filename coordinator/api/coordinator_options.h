#pragma once

// The options of a ClusterCoordinator: cluster, homes, limits, time-outs and recovery; and those of
// a closure that is scheduled on it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/frame_limits.h"
#include "coordinator/cluster/worker_roster.h"
#include "coordinator/homes/shard_transfer.h"
#include "coordinator/schedule/closure.h"
#include "coordinator/schedule/scheduler_options.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/placement.h"

namespace cohort {

struct ClusterCoordinatorOptions : ScheduleLimits {
  ClusterSpec cluster;
  Role homes = Role::kPs;  // kWorker: variables live in the workers, and the cluster has no ps
  // True: every worker is a home of every variable, and gang closures run on all workers. False: if
  // the workers are homes, the cluster has exactly one worker.
  bool mirrored = false;
  // The number of replicas of a strategy that mirrors variables. A variable of synchronization
  // ON_READ that is made in a scope has one value per replica. 0: ON_READ variables are like all
  // others.
  int64_t replicas = 0;
  // True: all tasks run on one machine, so that all slices of the variables must fit into its
  // memory together.
  bool one_machine = false;
  // The job's name. Together with `settings`, a fingerprint of the training, the name identifies
  // the job: a coordinator of the same job takes its tasks over, and a coordinator of another job
  // waits for the tasks (EpochClaim). Without a fingerprint every coordinator counts as another
  // job.
  std::string job = "job";
  std::optional<uint64_t> settings;
  // True: the coordinator takes over even tasks of other jobs that are still alive.
  bool take_over = false;
  uint64_t seed = 0;
  std::shared_ptr<const Partitioner> partitioner;  // nullptr: no variable is partitioned
  // The policy that places variables made in a scope.
  PlacementPolicy placement = PlacementPolicy::kRoundRobin;
  // The maximum size in bytes of one slice of a variable made in a scope (CutPieces).
  size_t slice_bytes_max = kCallBytesMax;
  WorkerLimits workers;  // the job starts when `min` workers serve; later workers may come and go
  int worker_threads = 0;
  // How many ids a closure may be ahead of the oldest unfinished one; absent: no limit.
  std::optional<uint64_t> steps_ahead_max;
  absl::Duration connect_timeout = absl::Seconds(60);
  absl::Duration lease = absl::Seconds(5);
  absl::Duration call_timeout = absl::Seconds(60);
  // Returns the present address of a task. Null: the address in the cluster spec is used.
  std::function<std::string(TaskId)> address;
  // Where a user finds this process, told to the tasks for their messages about who holds them; at
  // most kPlaceBytesMax bytes (common/task/task_hold.h) are told. Empty: nothing is told.
  std::string place;
  uint64_t incarnation = 0;  // the incarnation of this process; 0: made from the clock
  CheckpointMode checkpoint_mode = CheckpointMode::kAuto;
  size_t checkpoint_chunk_bytes = kShardChunkBytes;  // chunk size of a streamed checkpoint shard
  // The directory of recovery checkpoints; empty: the loss of a ps is an error.
  std::string recovery_directory;
  absl::Duration recovery_interval = absl::Seconds(10);
  // Number of closures after which a recovery checkpoint is taken; 0: only the time interval
  // counts.
  size_t recovery_interval_closures = 0;
  size_t redo_max = 65536;  // the most closures between two recovery checkpoints
  // True: the program calls SetApplicationState before the first Schedule. No recovery checkpoint
  // is taken before that call, unless the job goes on from one.
  bool has_application_state = false;
};

using ProgramHandle = std::shared_ptr<const RegisteredProgram>;
using DatasetHandle = std::shared_ptr<const RegisteredDataset>;
// TensorFlow's per-worker iterator: each worker draws from an iterator of its own. A new iterator
// starts from the beginning of the data.
using IteratorHandle = std::shared_ptr<const RegisteredIterator>;

// The options with which a program schedules a closure.
struct ScheduleOptions {
  // Inputs of the program: tensors, and results of earlier closures.
  std::vector<Argument> arguments;
  // The source of the closure's batch: an IteratorHandle, a SplitInput, or nothing.
  InputChoice input = {};
  double learning_rate = 0;
  uint64_t step = 0;  // the step number that the program sees; 0: the closure's id
  // Further steps of a closure with a SplitInput. The worker runs them after the first step in the
  // same call. The result holds the fetches of all steps, one step after another. Closure ids, step
  // numbers and round numbers increase by one with each step.
  std::vector<LaterStep> later_steps = {};
  // The time for which Schedule waits for room in the queue.
  absl::Duration queue_timeout = absl::InfiniteDuration();
  // The time that the closure may take, counted from the call of Schedule. A closure that is not
  // done by then fails with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // True: the closure may run a second time after a loss. False: a loss that would need a second
  // run fails the closure with DATA_LOSS.
  bool replayable = true;
  Round round = {};  // the update that the closure belongs to, in synchronous training
  // True: the closure is a gang, which is a round of one closure and begins when the gang before it
  // is done. A gang whose program changes no variable has the round of the next update, and reads
  // the values on which that update builds.
  bool gang = false;
};

}  // namespace cohort
