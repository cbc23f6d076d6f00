#pragma once

// A worker as the scheduler sees it, and what runs there.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/transport.h"
#include "coordinator/schedule/closure.h"
#include "proto/error.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

class GangChannel;

struct WorkerSlots {
  bool ready = false;
  // Counts WorkerReady: pushes carry it, so that those from before a loss can be fenced, and those
  // after the return of the same process are not.
  uint64_t session = 0;
  proto::TaskRef task;
  std::string address;
  std::shared_ptr<Channel> channel;  // shared with runs
  int in_flight = 0;
  absl::Time hold_until = absl::InfinitePast();  // takes nothing before
  std::set<std::string> prepared;
  std::vector<absl::AnyInvocable<void()>> on_drained;  // not empty: it is being removed
};

// A worker that runs a closure.
struct GangMember {
  int worker = 0;
  uint64_t session = 0;  // the lane's when it began
  proto::TaskRef task;
  std::shared_ptr<Channel> channel;
};

// A closure on one worker process, or on all of a gang.
struct WorkerRun {
  std::shared_ptr<Closure> closure;  // shared with the queue
  std::vector<GangMember> members;   // by rank
  uint32_t attempt = 0;
  size_t first_step = 0;  // the closure's steps before it are done
  // its pushes are fenced by it: the lane's, or that of the gang's generation
  uint64_t session = 0;
  std::shared_ptr<Channel> channel;           // to all members
  std::shared_ptr<GangChannel> gang_channel;  // the same, of a gang of several workers
  proto::Gang gang;                           // a gang closure's place among those of the members
  bool called = false;  // its members were told to run it; before, they are given what it needs
  bool waits_for_fence = false;      // its calls have ended, and it may not run again yet
  std::vector<std::string> missing;  // resources still to be made, first one first

  const proto::TaskRef& task() const { return members.front().task; }
  int worker() const { return members.front().worker; }
  size_t num_steps() const { return closure->num_steps() - first_step; }
  // Returns null if it does not run there.
  const GangMember* Member(int worker) const;
  bool Involves(int worker) const { return Member(worker) != nullptr; }
  // Returns the member that the error is about, or null.
  const GangMember* AtFault(const absl::Status& status) const;
};

}  // namespace cohort
