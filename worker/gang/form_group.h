#pragma once

// Which communicator a group gets: ranks that are all processes of one host share memory, others
// send frames. Whether ranks are on one host is found out by trying: they share memory when all of
// them could join it (shm_rendezvous.h), which all of them know alike; else they send frames.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/wire/transport.h"
#include "worker/collective/communicator.h"
#include "worker/collective/lanes/lane_communicator.h"

namespace cohort {

struct FormGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;  // by rank
  // The same on all ranks, from whoever plans the group (NewShmSocket); empty: frames only.
  std::string shm_socket;
  absl::Duration shm_timeout = absl::Seconds(5);
};

struct FormedGroup {
  std::unique_ptr<Communicator> communicator;
  std::string how;  // for people: "shared memory", or "frames: " and why
  std::shared_ptr<const FlightRecorder> recorder;  // shared with it; the table keeps it, too
};

// What the group uses; outlives its communicator.
struct GroupResources {
  Clock& clock;
  Executor& executor;
  Transport& transport;
  std::shared_ptr<FrameRouter> table;  // shared by the groups of the worker
};

// `formed` runs once, on the executor, after the shared memory's timeout at the latest.
void FormGroup(const GroupResources& resources, FormGroupOptions options,
               absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
