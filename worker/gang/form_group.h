#pragma once

// The choice of a group's communicator: ranks that are all processes of one host share memory,
// others send frames. Whether ranks are on one host is found out by trying: they share memory if
// all of them could join it (shm_rendezvous.h), which all of them know alike; else they send
// frames.

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
  std::vector<std::string> addresses;  // one per rank
  // The same on all ranks, from the planner of the group (NewShmSocket); empty: frames only.
  std::string shm_socket;
  absl::Duration shm_timeout = absl::Seconds(5);
};

struct FormedGroup {
  std::unique_ptr<Communicator> communicator;
  std::string how;  // in words: "shared memory", or "frames: " and why
  std::shared_ptr<const FlightRecorder> recorder;  // shared with it; the table keeps it, too
};

// The parts that the group uses; they outlive its communicator.
struct GroupResources {
  Clock& clock;
  Executor& executor;
  Transport& transport;
  std::shared_ptr<FrameRouter> table;  // shared by the groups of the worker
};

// Forms a group. `formed` runs once, on the executor, after the shared memory's timeout at the
// latest.
void FormGroup(const GroupResources& resources, FormGroupOptions options,
               absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
