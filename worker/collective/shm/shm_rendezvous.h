#pragma once

// The rendezvous by which the ranks of one host come to share memory. Rank 0 makes it and listens
// on a local socket whose name, 128 random bits, all ranks were told. Then, between rank 0 and each
// other rank:
//
//   hello    ->   magic, rank, size, generation, and with it the reading end of this rank's life
//   shares   <-   the memory's descriptor, then each rank's life, a byte with each
//   proof    ->   the nonce that is written in the memory: both ends see the same
//   go       <-   all ranks have proven it
//
// Whoever does not get to the end within the time gives up, and closes; the others see that and
// give up too, so either all share or none does. Internal to worker/collective.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {

struct ShmRendezvous {
  int rank = 0;
  int size = 0;
  uint64_t generation = 0;
  std::string socket;  // NewSocketNumber's, the same on all ranks
  absl::Duration timeout = absl::Seconds(10);
  ShmPlan plan;  // rank 0's counts
  // Runs before each message that this rank sends. May be empty.
  std::function<void()> before_message;
};

// The result of the rendezvous for one rank.
struct ShmShare {
  std::shared_ptr<ShmSegment> segment;  // shared with buffers
  std::vector<UniqueFd> lives;  // one per rank: ends of pipes for reading; empty for this rank
  UniqueFd life;                // this rank's own, the end for writing
};

// Meets the other ranks. Blocks until all are here; `stop` becomes readable to give up. Errors:
// UNAVAILABLE, DEADLINE_EXCEEDED naming the missing ranks, RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<ShmShare> MeetOnHost(const ShmRendezvous& options, const UniqueFd& stop);

}  // namespace cohort
