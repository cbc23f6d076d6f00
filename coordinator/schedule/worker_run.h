#pragma once

// A run of a closure: one attempt to run it, on one worker or on all members of a gang.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/wire/transport.h"
#include "coordinator/schedule/closure.h"
#include "proto/error.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

class GangChannel;

// A worker that takes part in a run, alone or as a member of a gang.
struct GangMember {
  int worker = 0;
  uint64_t session = 0;  // the worker's session when the run began (slot_table.h)
  proto::TaskRef task;
  std::shared_ptr<Channel> channel;
};

// One attempt to run a closure, on one worker process or on all members of a gang.
struct WorkerRun {
  std::shared_ptr<Closure> closure;  // the closure, shared with the queue
  std::vector<GangMember> members;   // one worker, or all members of the gang by rank
  uint32_t attempt = 0;
  size_t first_step = 0;  // number of steps that earlier runs have done
  // The session by which the run's pushes can be fenced: the worker's session or, for a gang of
  // several workers, the session of its generation.
  uint64_t session = 0;
  // The channel to the worker or, for a gang, to all of its members at once.
  std::shared_ptr<Channel> channel;
  // The channel of a gang of several workers (the same object as `channel`); null for a single
  // worker.
  std::shared_ptr<GangChannel> gang_channel;
  proto::Gang gang;  // generation and place of a gang closure (gang_lineup.h)
  // True once the workers were told to run the closure (RunClosure). Before that, they are given
  // its resources.
  bool called = false;
  // True if the run's call has ended, but the closure must not run again before a session is fenced
  // (fences.h).
  bool waits_for_fence = false;
  // The keys of the resources that members still lack, in the order in which they must be made.
  std::vector<std::string> missing;

  const proto::TaskRef& task() const { return members.front().task; }
  int worker() const { return members.front().worker; }
  size_t num_steps() const { return closure->num_steps() - first_step; }
  // Returns the member of the run that is worker number `worker`, or nullptr if there is none.
  const GangMember* Member(int worker) const;
  bool Involves(int worker) const { return Member(worker) != nullptr; }
  // Returns the member that `status` names as its origin, or nullptr if it names none.
  const GangMember* AtFault(const absl::Status& status) const;
};

}  // namespace cohort
