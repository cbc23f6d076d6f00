#pragma once

// The rendezvous by which the ranks of one host come to share memory. Rank 0 makes the memory and
// listens on a local socket, whose name all ranks know; it contains 128 random bits. Each rank has
// a pipe that shows its life: the rank holds the writing end, every other rank a reading end. The
// messages between rank 0 and each other rank:
//
//   hello    ->   magic, rank, size, generation, and the reading end of this rank's pipe
//   shares   <-   descriptors, each with one byte: the memory, then the reading end of each rank's
//                 pipe
//   proof    ->   the nonce that is in the memory: both ranks see the same memory
//   go       <-   all ranks have proven that they see the memory
//
// A rank that does not finish in time gives up and closes its sockets. The other ranks see this and
// give up as well, so either all ranks share memory or none does. Internal to worker/collective.

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
  std::string socket;  // name of rank 0's socket, from NewShmSocket(); the same on all ranks
  absl::Duration timeout = absl::Seconds(10);
  ShmPlan plan;  // layout of the memory; only that of rank 0 counts
  // A hook for tests, which runs before each message that this rank sends. May be empty.
  std::function<void()> before_message;
};

// The share of one rank in the memory of its host.
struct ShmShare {
  std::shared_ptr<ShmSegment> segment;  // the memory of all ranks; shared with buffers
  std::vector<UniqueFd> lives;          // reading end of each rank's pipe; empty for this rank
  UniqueFd life;                        // writing end of this rank's pipe
};

// Meets the other ranks of the host and shares memory with them. Blocks until all ranks have met;
// the caller makes `stop` readable to give up. Errors: UNAVAILABLE, DEADLINE_EXCEEDED naming the
// missing ranks, RESOURCE_EXHAUSTED, CANCELLED if the caller gave up.
absl::StatusOr<ShmShare> MeetOnHost(const ShmRendezvous& options, const UniqueFd& stop);

}  // namespace cohort
