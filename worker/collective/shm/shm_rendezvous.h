#pragma once

// The rendezvous by which the ranks of one host come to share memory. Rank 0 makes the memory and
// listens on a local socket. All ranks were told the socket's name, which contains 128 random bits.
// Each rank has a pipe that shows its life: the rank holds the writing end, and the reading end of
// every other rank's pipe. The messages between rank 0 and each other rank:
//
//   hello    ->   magic, rank, size, generation, and with them the reading end of this rank's pipe
//   shares   <-   descriptors, each with a byte: the memory, then the reading end of each rank's
//   pipe proof    ->   the nonce that is written in the memory: both ends see the same memory go <-
//   all ranks have proven that they see the memory
//
// A rank that does not finish the rendezvous in time gives up and closes its sockets. The other
// ranks see the closed sockets and give up too, so either all ranks share memory or no rank does.
// Internal to worker/collective.

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
  std::string socket;  // the name from NewShmSocket, the same on all ranks
  absl::Duration timeout = absl::Seconds(10);
  ShmPlan plan;  // layout of the shared memory; that of rank 0 is used
  // A hook for tests that runs before each message that this rank sends. May be empty.
  std::function<void()> before_message;
};

// The result of the rendezvous for one rank.
struct ShmShare {
  std::shared_ptr<ShmSegment> segment;  // the memory of all ranks; shared with buffers
  std::vector<UniqueFd> lives;          // the reading end of each rank's pipe; empty for this rank
  UniqueFd life;                        // the writing end of this rank's pipe
};

// Runs the rendezvous with the other ranks of the host. Blocks until all ranks have met; the caller
// makes `stop` readable to give up. Errors: UNAVAILABLE, DEADLINE_EXCEEDED that names the missing
// ranks, RESOURCE_EXHAUSTED, CANCELLED.
absl::StatusOr<ShmShare> MeetOnHost(const ShmRendezvous& options, const UniqueFd& stop);

}  // namespace cohort
