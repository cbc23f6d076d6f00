#pragma once

// The groups in which this worker runs gangs with other workers. Each generation of gangs has its
// own group. The group forms when the first gang of the generation joins the generation or ends it:
// members that have begun must hear the cause of an end also from a member that has not begun. A
// generation ends on all members, with one cause. A later generation ends the present generation if
// nothing else has ended it.

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

// The generations of one worker and their groups. Thread-safe. Always owned by a shared_ptr: groups
// that form hold it.
class GroupSessions : public std::enable_shared_from_this<GroupSessions> {
 public:
  // The callback of Join. Receives the gang's group, or null for a gang of this worker alone.
  // Errors: the cause with which the generation has ended; ABORTED (TRANSIENT) when a later
  // generation has begun; INVALID_ARGUMENT when this worker is not a member.
  using Ready = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<GangGroup>>)>;

  // Makes the sessions. `flight_directory` is where the worker keeps the call records of failed
  // generations (flight_recorder.h); empty means nowhere. `reach` watches the other members of the
  // present generation.
  GroupSessions(World world, FindNccl find_nccl, std::string flight_directory,
                std::shared_ptr<PeerReach> reach);

  // Sets this worker's own name as a member. Called before all other methods.
  void SetOwn(const proto::TaskRef& own) { own_ = own; }
  // Returns the service that the other members call. The service keeps alive what it needs.
  Service service() { return table_->MakeService(); }

  // Ends the present generation. From now on, generations are those of `coordinator`.
  void Restart(uint64_t coordinator);
  // Ends the present generation when the worker stops. Afterwards no member watches this worker.
  void Leave();
  // Joins the gang's generation. `ready` runs once, inside Join or later.
  void Join(const proto::Gang& gang, Ready ready);
  // Ends the gang's generation with the error `why`, here and on the other members. Does nothing
  // for a gang of this worker alone. The first error counts.
  void End(const proto::Gang& gang, const absl::Status& why);

 private:
  struct Generation {
    uint64_t number = 0;
    absl::Status ended;
    std::shared_ptr<GangGroup> group;  // group of the generation; null while it forms
    // The flight record of the group's calls, shared with the group.
    std::shared_ptr<const FlightRecorder> recorder;
    std::vector<Ready> waiting;  // callbacks of gangs that wait until the group has formed
    // Watches of the other members, kept until the generation ends.
    std::vector<PeerReach::Need> needs;
  };

  // Returns the gang's generation, and begins it if it is new. Returns null if the generation is
  // over.
  std::shared_ptr<Generation> Enter(const proto::Gang& gang);
  void Form(const proto::Gang& gang, uint64_t coordinator, std::shared_ptr<Generation> generation);
  // Watches the other members. A member that was not reached for too long ends the generation: the
  // member is lost for good, or it is reached again but messages to it may have been lost.
  void WatchMembers(const proto::Gang& gang, const std::shared_ptr<Generation>& generation);
  void Formed(Generation& generation, FormedGroup formed);
  // Ends the present generation. From then on, the service refuses other members' calls to groups
  // of any coordinator but `coordinator`.
  void EndPresent(uint64_t coordinator, const absl::Status& why);
  void EndGeneration(Generation& generation, const absl::Status& why);
  void KeepFlight(std::shared_ptr<const FlightRecorder> recorder, const absl::Status& why);

  const World world_;
  const FindNccl find_nccl_;
  const std::string flight_directory_;
  // Reachability of peers, shared with the parameter servers' client.
  const std::shared_ptr<PeerReach> reach_;
  // Router of frames, shared by the communicators and the service.
  const std::shared_ptr<FrameRouter> table_;
  proto::TaskRef own_;  // name of this worker; constant after SetOwn
  Mutex mutex_;
  uint64_t coordinator_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  // The present generation, shared with the code that forms its group. The lock guards the pointee,
  // too.
  std::shared_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
