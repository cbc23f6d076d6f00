#pragma once

// What the plans of the seeds' jobs have in common: the cluster, and how its coordinators run
// closures.

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "common/wire/frame_limits.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

struct JobPlan {
  int ps = 0;
  int workers = 1;
  int closures_in_flight = 2;
  size_t queue_bound = 1024;
  size_t redo_max = 65536;
  absl::Duration recovery_interval;
  absl::Duration lease;
  // Whether every start of a task but the coordinator finds an empty disk of its own, so that
  // checkpoints stream.
  bool private_disks = false;
  size_t chunk_bytes = 0;  // of shards that stream
  uint32_t pace = 0;       // milliseconds between two items at most
  // Of variables and of calls that move them (frame_limits.h): small ones make variables of a few
  // rows travel in several calls to a home.
  size_t slice_bytes_max = kCallBytesMax;
  size_t call_bytes_max = kCallBytesMax;

  // For one seed in three, whose variables have few rows.
  void DrawCalls(uint64_t seed) {
    constexpr uint64_t kCallsSalt = 0x63616c6c73;
    SequenceRng rng(Mix64(seed ^ kCallsSalt));
    if (rng.Below(3) != 0) return;
    slice_bytes_max = sizeof(float) * (1 + rng.Below(2));
    call_bytes_max = slice_bytes_max * (1 + rng.Below(2));
  }
  bool has_small_calls() const { return call_bytes_max < kCallBytesMax; }
};

}  // namespace cohort
