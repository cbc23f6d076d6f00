#pragma once

// The receiving end of a worker: the groups that the worker belongs to, and the service that hands
// each group the calls of its peers. A peer may make a group before this worker makes it; the
// peer's calls then wait for the group. Calls of a generation that is over are refused and counted.
// The router also keeps the flight records of the last groups, for operators who ask.

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

// The router of all groups of one worker. Always owned by a shared_ptr, which the service's
// handlers share. Thread-safe.
class FrameRouter : public std::enable_shared_from_this<FrameRouter> {
 public:
  // Returns the service for Transport::Listen.
  Service MakeService();

  // Routes peers' calls for the group to the receiver from now on, for as long as the receiver
  // lives. Calls that wait for the group reach the receiver inside Add. Calls that wait for older
  // generations of the group are refused.
  void Add(const GroupName& group, std::weak_ptr<LaneReceiver> receiver);
  // Refuses peers' calls for the group from now on.
  void Remove(const GroupName& group);
  // Declares all groups that are not called `name` over, whether this worker has made them or not.
  // Peers' calls for these groups are refused from now on, including the calls that wait.
  void Only(const std::string& name);

  // Keeps the flight recorder of a group for requests of operators, even after the group is over;
  // only the last kFlightsMax recorders are kept. `clock` is the clock of the recorder's times; it
  // must outlive the router.
  static constexpr size_t kFlightsMax = 4;
  void Keep(std::shared_ptr<const FlightRecorder> recorder, const Clock& clock);

  struct Stats {
    uint64_t refused_old = 0;  // number of refused calls of generations that are over
    uint64_t waiting = 0;      // number of calls that wait until this worker makes their group
  };
  Stats stats() const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // the hash of the group's name, and the generation
  // The handling of a peer's call. Gets the receiver of the call's group, or null and the reason
  // why there is no receiver.
  using Visit = absl::AnyInvocable<void(LaneReceiver*, const absl::Status&)>;

  template <typename Request, typename Response, typename Use>
  Handler HandlerOf(Use use);
  // Runs `visit` with the receiver of the group: at once, or when the group is made. If the group
  // is over, `visit` runs with null.
  void Find(const Key& key, Visit visit);
  // Returns the memory for the payload of a frame with this header (LaneReceiver::PlaceOf), or null
  // if the frame's group has not been made.
  std::shared_ptr<ReceivePlace> PlaceOf(absl::string_view header, size_t bytes);
  proto::GetFlightRecordResponse Flights(const proto::GetFlightRecordRequest& request) const;

  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<LaneReceiver>> receivers_ ABSL_GUARDED_BY(mutex_);
  // The newest generation of each group, by the hash of the group's name.
  std::map<uint64_t, uint64_t> newest_ ABSL_GUARDED_BY(mutex_);
  // The hash of the name that was passed to Only: groups of all other names are over.
  std::optional<uint64_t> only_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::vector<Visit>> waiting_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  struct Flight {
    // The flight recorder of a group; shared with the group.
    std::shared_ptr<const FlightRecorder> recorder;
    const Clock* clock = nullptr;
  };
  std::deque<Flight> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
