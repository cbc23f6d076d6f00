#pragma once

// The choice of a group's communicator. Ranks that are all processes of one host share memory;
// other ranks send frames. Whether all ranks are on one host is found out by trying: they share
// memory if all of them could join the segment (shm_rendezvous.h). All ranks learn the same result
// of the try.
//
// Ranks that have a GPU each use NCCL instead. There is no fallback: if NCCL cannot be used, every
// call of the communicator ends with the reason, on all ranks.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/wire/transport.h"
#include "worker/collective/communicator.h"
#include "worker/collective/lanes/lane_communicator.h"
#include "worker/collective/nccl/nccl_communicator.h"

namespace cohort {

struct FormGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;  // the address of each rank
  // The name of the rendezvous socket for shared memory, the same on all ranks (NewShmSocket).
  // Empty: the group uses frames without trying to share memory.
  std::string shm_socket;
  absl::Duration shm_timeout = absl::Seconds(5);
};

// A group's communicator and how its ranks reach each other.
struct FormedGroup {
  std::unique_ptr<Communicator> communicator;
  // How ranks reach each other, for logs: "shared memory", or "frames: " and the reason.
  std::string how;
  // The flight record of the group's calls, shared with the communicator and the router.
  std::shared_ptr<const FlightRecorder> recorder;
};

// The worker's resources that a group uses; they outlive the group's communicator.
struct GroupResources {
  Clock& clock;
  Executor& executor;
  Transport& transport;
  std::shared_ptr<FrameRouter> table;  // router of frames, shared by all groups of the worker
};

// Forms a group. `formed` runs once, on the executor, at the latest after the timeout of the shared
// memory.
void FormGroup(const GroupResources& resources, FormGroupOptions options,
               absl::AnyInvocable<void(FormedGroup)> formed);

struct FormNcclGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;  // the address of each rank
  int device = 0;                      // the number by which CUDA knows this rank's GPU
  // NCCL's table of functions, or the reason why there is none: the result of
  // LoadNccl(NcclModulePath()).
  absl::StatusOr<const NcclTable*> table;
};

// Forms a group over NCCL. `formed` runs once, on the executor, when the ranks have joined NCCL or
// have failed to join; FormedGroup::how then names the device or the error.
void FormNcclGroup(const GroupResources& resources, FormNcclGroupOptions options,
                   absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
