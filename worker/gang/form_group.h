#pragma once

// The choice of a group's communicator. If all ranks are processes of one host, they share memory;
// otherwise they send frames. The ranks find out by trying: if all of them can join one segment of
// shared memory, they use the segment, else frames (shm_rendezvous.h). All ranks learn the same
// result.
//
// A gang whose members each have a GPU may ask for NCCL instead. There is no fallback from NCCL: if
// NCCL cannot be used, every call of the communicator ends with the reason, on all ranks.

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
  // The name of the socket at which the ranks meet to share memory, the same on all ranks
  // (NewShmSocket). Empty: the ranks send frames and do not try to share memory.
  std::string shm_socket;
  absl::Duration shm_timeout = absl::Seconds(5);
};

// A rank's communicator, and the way by which the ranks reach each other.
struct FormedGroup {
  std::unique_ptr<Communicator> communicator;
  // The way by which the ranks reach each other, in words for logs: "shared memory", "frames: " and
  // the reason, or "NCCL, " and the GPU or the error.
  std::string how;
  // The flight record of the group's calls; shared with the communicator and the FrameRouter.
  std::shared_ptr<const FlightRecorder> recorder;
};

// The objects of the worker that a group uses; they outlive the group's communicator.
struct GroupResources {
  Clock& clock;
  Executor& executor;
  Transport& transport;
  std::shared_ptr<FrameRouter> router;  // hands frames to the groups of this worker, which share it
};

// A group while it forms. Thread-safe.
class FormingGroup {
 public:
  virtual ~FormingGroup() = default;
  // Stops waiting for the other ranks, because the group has ended with the error `why` before it
  // has formed. `formed` then runs inside this call, with a communicator by which the caller can
  // tell the other ranks why. Does nothing if the group has formed.
  virtual void GiveUp(const absl::Status& why) = 0;
};

// Makes this rank's communicator in shared memory or over frames. `formed` runs once, after
// `shm_timeout` at the latest: on the executor, or inside GiveUp().
std::shared_ptr<FormingGroup> FormGroup(const GroupResources& resources, FormGroupOptions options,
                                        absl::AnyInvocable<void(FormedGroup)> formed);

struct FormNcclGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;  // the address of each rank
  int device = 0;                      // the number by which CUDA knows this rank's GPU
  // The functions of NCCL, or the reason why NCCL cannot be used: the result of
  // LoadNccl(NcclModulePath()).
  absl::StatusOr<const NcclTable*> table;
};

// Makes this rank's communicator over NCCL. `formed` runs once, on the executor, when the ranks
// have joined NCCL or have failed to join, or inside GiveUp(); FormedGroup::how then names the GPU
// or the error.
std::shared_ptr<FormingGroup> FormNcclGroup(const GroupResources& resources,
                                            FormNcclGroupOptions options,
                                            absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
