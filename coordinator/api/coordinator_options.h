#pragma once

// What a ClusterCoordinator is told when it is made.

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
  Role homes = Role::kPs;  // of variables; kWorker: the workers of a cluster without a ps
  // Every worker is a home of every variable, and gang closures run on all of them. Otherwise a
  // cluster whose workers are homes has one.
  bool mirrored = false;
  // Of a strategy that mirrors variables: its replicas, which have values of their own of variables
  // of synchronization ON_READ made in a scope. 0: such variables are as others.
  int64_t replicas = 0;
  bool one_machine = false;            // all tasks are on one, whose memory their variables share
  uint64_t shared_memory = 0;          // of such gangs: Gang.shared_memory
  std::optional<int32_t> nccl_device;  // of such gangs: Gang.nccl_device
  // The job is its name with a fingerprint of what it trains, and how: a coordinator of the same
  // job takes the tasks over, one of another job waits for them (EpochClaim). Without a fingerprint
  // every coordinator is of another job.
  std::string job = "job";
  std::optional<uint64_t> settings;
  bool take_over = false;  // tasks of other jobs too, also while these live
  uint64_t seed = 0;
  std::shared_ptr<const Partitioner> partitioner;            // nullptr: nothing is partitioned
  PlacementPolicy placement = PlacementPolicy::kRoundRobin;  // of variables made in a scope
  size_t slice_bytes_max = kCallBytesMax;  // of a variable made in a scope (CutPieces)
  WorkerLimits workers;  // it starts when `min` serve, and later ones may come and go
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
  std::function<std::string(TaskId)> address;  // of a task now; default: the spec's
  uint64_t incarnation = 0;                    // of this process start; 0: from the clock
  CheckpointMode checkpoint_mode = CheckpointMode::kAuto;
  size_t checkpoint_chunk_bytes = kShardChunkBytes;  // of a shard that streams
  std::string recovery_directory;  // empty: the loss of a parameter server is an error
  absl::Duration recovery_interval = absl::Seconds(10);
  size_t recovery_interval_closures = 0;  // done since the last one; 0: only time counts
  size_t redo_max = 65536;                // closures between two checkpoints
};

}  // namespace cohort
