#pragma once

// The groups in which this worker runs gangs with other workers. Each generation of gangs has a
// group of its own. The group forms when the first gang of the generation arrives or is ended: a
// member that ends a gang before it has begun must still tell the cause to the members that have
// begun. A generation ends on all members, with one cause. If nothing else has ended a generation,
// the next generation ends it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/work_gate.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"
#include "proto/worker.pb.h"
#include "worker/collective/lanes/frame_router.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/gang/form_group.h"
#include "worker/gang/gang_group.h"
#include "worker/ps_client/peer_reach.h"

namespace cohort {

// The present generation of one worker and its group. Thread-safe. Always owned by a shared_ptr,
// which the code that forms a group holds.
class GroupSessions : public std::enable_shared_from_this<GroupSessions> {
 public:
  // The callback of Join(). Receives the gang's group, or null for a gang of this worker alone.
  // Errors: the cause with which the generation has ended; ABORTED (TRANSIENT) if a later
  // generation has begun; INVALID_ARGUMENT if this worker is not a member of the gang.
  using Ready = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<GangGroup>>)>;

  // Makes the object without a generation. The records of the collective calls of failed
  // generations (flight_recorder.h) are written to `flight_directory`, or nowhere if it is empty.
  // `reach` watches the other members of the present generation.
  GroupSessions(World world, FindNccl find_nccl, std::string flight_directory,
                std::shared_ptr<PeerReach> reach);

  // Sets the name under which this worker is a member of gangs. Called before all other methods.
  void SetOwn(const proto::TaskRef& own) { own_ = own; }
  // Returns the service that the other members call. The service keeps the objects alive that it
  // needs.
  Service service() { return router_->MakeService(); }

  // Ends the present generation. From now on, gangs are those of the coordinator whose incarnation
  // is `coordinator`.
  void Restart(uint64_t coordinator);
  // Ends the present generation because the worker stops. Gangs that arrive later find no group.
  // Afterwards no task uses the world's transport to form a group.
  void Leave();
  // Asks for the group of the gang's generation, and begins the generation if it is new. `ready`
  // runs once, inside this call or later.
  void Join(const proto::Gang& gang, Ready ready);
  // Ends the gang's generation with the error `why`, here and on the other members. Does nothing
  // for a gang of this worker alone, and nothing if the generation has ended before.
  void End(const proto::Gang& gang, const absl::Status& why);

 private:
  struct Generation {
    uint64_t number = 0;
    absl::Status ended;
    std::shared_ptr<GangGroup> group;     // the generation's group; null while the group forms
    std::weak_ptr<FormingGroup> forming;  // set while the group forms; owns itself until then
    // The flight record of the group's collective calls; shared with the group.
    std::shared_ptr<const FlightRecorder> recorder;
    std::vector<Ready> waiting;  // callbacks of gangs that wait until the group has formed
    // The watches of the other members; released when the generation ends.
    std::vector<PeerReach::Need> needs;
  };

  // Returns the gang's generation, and begins it if it is new. Returns null if a later generation
  // has begun or the worker has left.
  std::shared_ptr<Generation> Enter(const proto::Gang& gang);
  void Form(const proto::Gang& gang, uint64_t coordinator, std::shared_ptr<Generation> generation);
  // Watches the other members. A member that this worker does not reach for a whole lease ends the
  // generation. So does a member that is reached again after a silence, because messages to it may
  // have been lost.
  void WatchMembers(const proto::Gang& gang, const std::shared_ptr<Generation>& generation);
  // Keeps the forming group, so that the end of the generation ends the wait for other members.
  void KeepForming(Generation& generation, const std::shared_ptr<FormingGroup>& forming);
  void Formed(Generation& generation, FormedGroup formed);
  // Ends the present generation with the error `why`. From now on, RPCs of other members for groups
  // of any coordinator but `coordinator` are refused.
  void EndPresent(uint64_t coordinator, const absl::Status& why);
  void EndGeneration(Generation& generation, const absl::Status& why);
  void KeepFlight(std::shared_ptr<const FlightRecorder> recorder, const absl::Status& why);

  const World world_;
  const FindNccl find_nccl_;
  const std::string flight_directory_;
  // The record of which peers are reached; shared with the PsClient.
  const std::shared_ptr<PeerReach> reach_;
  // Hands frames to the groups of this worker; shared with the communicators and the service.
  const std::shared_ptr<FrameRouter> router_;
  proto::TaskRef own_;  // name of this worker; constant after SetOwn()
  WorkGate forming_;    // for the executor's tasks that form groups over the world's transport
  Mutex mutex_;
  uint64_t coordinator_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  // The present generation; shared with the code that forms its group. The lock guards what it
  // points to as well.
  std::shared_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
