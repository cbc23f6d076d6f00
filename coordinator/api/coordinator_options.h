#pragma once

// The options of a ClusterCoordinator (cluster, homes, limits, timeouts, recovery), and the options
// of a closure that is scheduled on a ClusterCoordinator.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/frame_limits.h"
#include "coordinator/cluster/worker_limits.h"
#include "coordinator/homes/checkpoint_mode.h"
#include "coordinator/schedule/closure_request.h"
#include "coordinator/schedule/schedule_limits.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/placement.h"

namespace cohort {

struct ClusterCoordinatorOptions : ScheduleLimits {
  ClusterSpec cluster;
  // The role of the tasks that keep the variables; if kWorker, the cluster has no ps.
  Role homes = Role::kPs;
  // If true, every worker is a home of every variable, and gang closures run on all workers. If
  // false and `homes` is kWorker, the cluster must have exactly one worker.
  bool mirrored = false;
  // The number of replicas of a strategy that mirrors variables, or 0. If it is not 0, a variable
  // with synchronization ON_READ that is made in a scope has one value per replica; if it is 0,
  // such a variable has a single value.
  int64_t replicas = 0;
  // If true, all tasks run on one machine, so all slices of all variables together must fit into
  // the memory of this machine.
  bool one_machine = false;
  // The job's name. The job is identified by the name together with `settings`, a fingerprint of
  // the training. A coordinator takes over the tasks that a coordinator of the same job holds, and
  // waits for tasks that a coordinator of another job holds (EpochClaim). If `settings` is absent,
  // every coordinator counts as another job.
  std::string job = "job";
  std::optional<uint64_t> settings;
  // If true, the coordinator takes over tasks even from a coordinator of another job that is still
  // alive.
  bool take_over = false;
  uint64_t seed = 0;
  // The rule by which variables made in a scope are cut. If null, none is cut.
  std::shared_ptr<const Partitioner> partitioner;
  // The policy by which homes are chosen for variables that are made in a scope.
  PlacementPolicy placement = PlacementPolicy::kRoundRobin;
  // The maximum size in bytes of one slice of a variable that is made in a scope (CutPieces).
  size_t slice_bytes_max = kCallBytesMax;
  WorkerLimits workers;  // the job starts when `min` workers serve; later workers may come and go
  int worker_threads = 0;
  // The number of ids that a closure may be ahead of the oldest closure that has not ended; if
  // absent, there is no limit.
  std::optional<uint64_t> steps_ahead_max;
  absl::Duration connect_timeout = absl::Seconds(60);
  absl::Duration lease = absl::Seconds(5);
  absl::Duration call_timeout = absl::Seconds(60);
  // A function that returns the present address of a task. If it is null, the address in `cluster`
  // is used.
  std::function<std::string(TaskId)> address;
  // The place where a user finds this coordinator's process. Tasks repeat this text in their
  // messages about who holds them, up to kPlaceBytesMax bytes (common/task/task_hold.h). If empty,
  // tasks are told nothing.
  std::string place;
  uint64_t incarnation = 0;  // incarnation of this process; if 0, made from the clock
  CheckpointMode checkpoint_mode = CheckpointMode::kAuto;
  // The size in bytes of one chunk of a streamed checkpoint shard.
  size_t checkpoint_chunk_bytes = kShardChunkBytes;
  // The directory of recovery checkpoints. If empty, the job does not recover: the loss of a ps is
  // an error.
  std::string recovery_directory;
  // The remedy for the loss of a home without recovery, which follows ": " in the error.
  std::string loss_remedy = "name a recovery directory, so that the job goes on by itself";
  absl::Duration recovery_interval = absl::Seconds(10);
  // The number of steps done after which a recovery checkpoint is taken; if 0, only
  // recovery_interval decides.
  size_t recovery_interval_closures = 0;
  // The maximum number of steps of closures between two recovery checkpoints.
  size_t redo_max = 65536;
  // If true, the program calls SetApplicationState before the first Schedule. No recovery
  // checkpoint is taken before that call, unless the job was resumed from a checkpoint.
  bool has_application_state = false;
};

// Handles of what is registered with a coordinator. Only the coordinator knows the types behind
// them.
using ProgramHandle = std::shared_ptr<const RegisteredProgram>;
using DatasetHandle = std::shared_ptr<const RegisteredDataset>;
// A per-worker iterator as in TensorFlow: each worker draws elements from an iterator of its own,
// which starts at the beginning of the data.
using IteratorHandle = std::shared_ptr<const RegisteredIterator>;

// The options with which a program schedules a closure.
struct ScheduleOptions {
  // Inputs of the program: tensors, or results of earlier closures.
  std::vector<Argument> arguments;
  // The source of the closure's batch: an IteratorHandle, a SplitInput, or none.
  InputChoice input = {};
  double learning_rate = 0;
  // The number of the training step, which the program sees. If 0, the closure's id is used.
  uint64_t step = 0;
  // Further training steps of a closure whose input is a SplitInput. The worker runs them after the
  // first step, in the same call. The result holds the fetches of all steps, one step after
  // another. Closure ids, step numbers and round numbers increase by one with each step.
  std::vector<LaterStep> later_steps = {};
  // The longest time that Schedule waits for room in the queue.
  absl::Duration queue_timeout = absl::InfiniteDuration();
  // The longest time until the closure is done, counted from the call of Schedule. A closure that
  // is not done by then fails with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // If true, the closure may run a second time after a loss. If false, a loss that would need a
  // second run fails the closure with DATA_LOSS.
  bool replayable = true;
  // The synchronous update (round) to which the closure belongs.
  Round round = {};
  // If true, the closure is a gang. A gang is a round of one closure, and begins when the previous
  // gang is done. If the program changes no variable, the gang carries the round number of the next
  // update, and reads the values on which that update builds.
  bool gang = false;
};

}  // namespace cohort
