#pragma once

// The receiving end of a worker: the groups of the worker, and the service by which other ranks
// reach them. A rank may form a group earlier than this worker; its RPCs then wait until this
// worker has formed the group. RPCs for a generation that is over are refused and counted. The
// router also keeps the flight records of the last groups, for `coordinator ctl flight-record`.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// Hands the RPCs of other ranks to the groups of one worker. Always owned by a shared_ptr, which
// the handlers of the service hold. Thread-safe.
class FrameRouter : public std::enable_shared_from_this<FrameRouter> {
 public:
  // Returns the service of proto/collective.proto, for Transport::Listen.
  Service MakeService();

  // Hands RPCs for the group to `receiver` from now on, as long as it lives. RPCs that wait for the
  // group reach `receiver` inside this call. RPCs that wait for an earlier generation of the group
  // are refused.
  void Add(const GroupName& group, std::weak_ptr<LaneReceiver> receiver);
  // Refuses RPCs for this generation of the group from now on.
  void Remove(const GroupName& group);
  // Refuses RPCs for all groups that are not called `name` from now on, whether this worker has
  // formed them or not; also those that wait.
  void Only(const std::string& name);

  // Keeps the flight record of a group, so that it can be asked for even when the group is over.
  // The last kFlightsMax records are kept. `clock` is the clock by which the record's times were
  // taken; it outlives this router.
  static constexpr size_t kFlightsMax = 4;
  void Keep(std::shared_ptr<const FlightRecorder> recorder, const Clock& clock);

  struct Stats {
    uint64_t refused_old = 0;  // RPCs that were refused because their generation is over
    uint64_t waiting = 0;      // RPCs that wait for a group which this worker has not formed
  };
  Stats stats() const;

 private:
  // The hash of a group's name, and a generation of the group.
  using Key = std::pair<uint64_t, uint64_t>;
  // The handling of one RPC. Gets the receiver of the RPC's group, or null and the reason why there
  // is none.
  using Visit = absl::AnyInvocable<void(LaneReceiver*, const absl::Status&)>;

  template <typename Request, typename Response, typename Use>
  Handler HandlerOf(Use use);
  // Runs `visit` with the receiver of the group `key`: at once, or when the group is added. Runs
  // `visit` with null and an error if the group is over or too many RPCs wait.
  void Find(const Key& key, Visit visit);
  // Returns the memory in which the payload of a frame with this header may be received
  // (LaneReceiver::PlaceOf); null if the frame's group has not been formed.
  std::shared_ptr<ReceivePlace> PlaceOf(absl::string_view header, size_t bytes);
  proto::GetFlightRecordResponse Flights(const proto::GetFlightRecordRequest& request) const;

  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<LaneReceiver>> receivers_ ABSL_GUARDED_BY(mutex_);
  // The newest generation of each group, by the hash of the group's name.
  std::map<uint64_t, uint64_t> newest_ ABSL_GUARDED_BY(mutex_);
  // The hash of the name that was passed to Only(); RPCs for groups of other names are refused.
  // Empty before Only().
  std::optional<uint64_t> only_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::vector<Visit>> waiting_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  struct Flight {
    // The flight record of a group; shared with the group.
    std::shared_ptr<const FlightRecorder> recorder;
    const Clock* clock = nullptr;
  };
  std::deque<Flight> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
