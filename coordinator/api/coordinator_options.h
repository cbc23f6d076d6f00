#pragma once

// Options of a ClusterCoordinator.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/frame_limits.h"
#include "coordinator/cluster/worker_roster.h"
#include "coordinator/homes/shard_transfer.h"
#include "coordinator/schedule/scheduler_options.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/placer.h"

namespace cohort {

struct ClusterCoordinatorOptions {
  ClusterSpec cluster;
  Role homes = Role::kPs;  // kWorker: the workers of a cluster without a ps
  // Whether every worker is a home of every variable, and gang closures run on all of them.
  // Otherwise a cluster whose workers are homes has one worker.
  bool mirrored = false;
  // The replicas of a strategy that mirrors variables; variables of synchronization ON_READ made in
  // a scope have a value for each of them. 0: such variables are like others.
  int64_t replicas = 0;
  bool one_machine = false;            // all tasks are on one, whose memory their variables share
  uint64_t shared_memory = 0;          // for such gangs: Gang.shared_memory
  std::optional<int32_t> nccl_device;  // for such gangs: Gang.nccl_device
  // The job is its name with a fingerprint of what it trains, and how: a coordinator of the same
  // job takes the tasks over, one of another job waits for them (EpochClaim). Without a fingerprint
  // every coordinator is of another job.
  std::string job = "job";
  std::optional<uint64_t> settings;
  bool take_over = false;  // tasks of other jobs too, also while these live
  uint64_t seed = 0;
  std::shared_ptr<const Partitioner> partitioner;            // nullptr: nothing is partitioned
  PlacementPolicy placement = PlacementPolicy::kRoundRobin;  // for variables made in a scope
  size_t slice_bytes_max = kCallBytesMax;  // for a variable made in a scope (CutPieces)
  WorkerLimits workers;  // the job starts when `min` serve, and later ones may come and go
  int worker_threads = 0;
  size_t queue_bound = 262144;
  int closures_in_flight = 2;
  std::optional<uint64_t> steps_ahead_max;  // bounded staleness; absent: asynchronous
  uint32_t attempts_max = 10;
  size_t quarantine_after = 3;  // worker processes that end together with one closure
  Quarantine quarantine = Quarantine::kFail;
  bool stop_at_first_error = true;  // false, as in TensorFlow: when a call observes it
  absl::Duration connect_timeout = absl::Seconds(60);
  absl::Duration lease = absl::Seconds(5);
  absl::Duration call_timeout = absl::Seconds(60);
  absl::Duration closure_timeout = absl::Minutes(10);
  std::function<std::string(TaskId)> address;  // the present address of a task; default: the spec's
  uint64_t incarnation = 0;                    // that of this process start; 0: from the clock
  CheckpointMode checkpoint_mode = CheckpointMode::kAuto;
  size_t checkpoint_chunk_bytes = kShardChunkBytes;  // for a shard that streams
  std::string recovery_directory;  // empty: the loss of a parameter server is an error
  absl::Duration recovery_interval = absl::Seconds(10);
  size_t recovery_interval_closures = 0;  // done since the last one; 0: only time counts
  size_t redo_max = 65536;                // closures between two checkpoints
};

}  // namespace cohort
