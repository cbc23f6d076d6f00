#pragma once

// The groups in which this worker runs gangs with others. Each generation of gangs has a group of
// its own, which forms when the first gang of it asks for it, or ends it: members that have begun
// are to hear why, also from one that has not. A generation that ends does so on all members, with
// one cause; and the next one ends it, if nothing else has.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/worker.pb.h"
#include "worker/collective/lanes/frame_router.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/gang/form_group.h"
#include "worker/gang/gang_group.h"
#include "worker/ps_client/peer_reach.h"

namespace cohort {

// Thread-safe. Always owned by a shared_ptr: groups that form hold it.
class GroupSessions : public std::enable_shared_from_this<GroupSessions> {
 public:
  // Null for a gang of this worker alone. Errors: what the generation has ended with; ABORTED
  // (TRANSIENT) when a later one has begun; INVALID_ARGUMENT when this worker is no member.
  using Ready = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<GangGroup>>)>;

  // Makes the sessions. `flight_directory` is where the worker keeps records of a failed
  // generation's calls (flight_file.h); empty: nowhere. `reach` watches the other members of the
  // present generation.
  GroupSessions(World world, FindNccl find_nccl, std::string flight_directory,
                std::shared_ptr<PeerReach> reach);

  // Sets this worker's own name as a member. Called before everything else.
  void SetOwn(const proto::TaskRef& own) { own_ = own; }
  // Returns the service for the other members. It keeps what it needs.
  Service service() { return table_->MakeService(); }

  // Generations are this coordinator's from now on, and the present one ends.
  void Restart(uint64_t coordinator);
  // Ends the present generation when the worker stops; nobody watches this worker any more.
  void Leave();
  // Joins a gang's generation. `ready` runs once, in this call or in another one.
  void Join(const proto::Gang& gang, Ready ready);
  // Ends the gang's generation with this error, here and on the other members; does nothing for a
  // gang of this worker alone. The first error counts.
  void End(const proto::Gang& gang, const absl::Status& why);

 private:
  struct Generation {
    uint64_t number = 0;
    absl::Status ended;
    std::shared_ptr<GangGroup> group;                // null: it forms
    std::shared_ptr<const FlightRecorder> recorder;  // shared with the group
    std::vector<Ready> waiting;                      // they wait for the group
    std::vector<PeerReach::Need> needs;              // the other members, until it has ended
  };

  // Returns the gang's generation, or null if it is over.
  std::shared_ptr<Generation> Enter(const proto::Gang& gang);
  void Form(const proto::Gang& gang, uint64_t coordinator, std::shared_ptr<Generation> generation);
  // Watches the members: one that was not reached for long ends the generation, for good, or
  // because what was sent to it meanwhile may be lost.
  void WatchMembers(const proto::Gang& gang, const std::shared_ptr<Generation>& generation);
  void Formed(Generation& generation, FormedGroup formed);
  // Ends the present generation; from then on, calls of others to groups of another coordinator
  // than this one are refused.
  void EndPresent(uint64_t coordinator, const absl::Status& why);
  void EndGeneration(Generation& generation, const absl::Status& why);
  void KeepFlight(std::shared_ptr<const FlightRecorder> recorder, const absl::Status& why);

  const World world_;
  const FindNccl find_nccl_;
  const std::string flight_directory_;
  const std::shared_ptr<PeerReach> reach_;    // shared with what else the worker needs
  const std::shared_ptr<FrameRouter> table_;  // shared by the communicators and the service
  proto::TaskRef own_;                        // constant after SetOwn
  Mutex mutex_;
  uint64_t coordinator_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the code that forms it; the pointee is guarded, too.
  std::shared_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
