#pragma once

// The runs of closures on workers.

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

// A worker that runs a closure, alone or as a member of a gang.
struct GangMember {
  int worker = 0;
  uint64_t session = 0;  // the worker's session when the run began
  proto::TaskRef task;
  std::shared_ptr<Channel> channel;
};

// A run of a closure on one worker process, or on all members of a gang.
struct WorkerRun {
  std::shared_ptr<Closure> closure;  // the closure, shared with the queue
  std::vector<GangMember> members;   // one worker alone, or all members of the gang by rank
  uint32_t attempt = 0;
  size_t first_step = 0;  // number of the closure's steps that were done before this run
  // The session by which the run's pushes are fenced: that of the lane, or that of the gang's
  // generation.
  uint64_t session = 0;
  std::shared_ptr<Channel> channel;  // channel to the worker, or to all members of the gang at once
  // The same channel as `channel` for a gang of several workers; null for a single worker.
  std::shared_ptr<GangChannel> gang_channel;
  proto::Gang gang;  // a gang closure's generation and place among the members' gangs
  // True once members were told to run the closure; before that, they get its resources.
  bool called = false;
  // True if the run's calls have ended, but its closure may run again only after a session's fence
  // (fences.h).
  bool waits_for_fence = false;
  std::vector<std::string> missing;  // keys of resources that the members still lack, in order

  const proto::TaskRef& task() const { return members.front().task; }
  int worker() const { return members.front().worker; }
  size_t num_steps() const { return closure->num_steps() - first_step; }
  // Returns the member of the run that is this worker, or null if the worker is not a member.
  const GangMember* Member(int worker) const;
  bool Involves(int worker) const { return Member(worker) != nullptr; }
  // Returns the member of the run that the error names as its origin, or null.
  const GangMember* AtFault(const absl::Status& status) const;
};

}  // namespace cohort
