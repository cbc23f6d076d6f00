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

  // Routes calls for the group to the receiver from now on, for as long as the receiver lives.
  // Calls that wait for the group reach the receiver inside Add. Calls that wait for older
  // generations of the group are refused.
  void Add(const GroupName& group, std::weak_ptr<LaneReceiver> receiver);
  // Refuses calls for the group from now on.
  void Remove(const GroupName& group);
  // Declares the groups of all other names over, whether this worker has made them or not. Calls
  // for these groups are refused from now on, including the calls that wait.
  void Only(const std::string& name);

  // Keeps the recorder of a group for later questions, even after the group is over; only the last
  // kFlightsMax recorders are kept. `clock` is the clock of the recorder's times; it must outlive
  // the router.
  static constexpr size_t kFlightsMax = 4;
  void Keep(std::shared_ptr<const FlightRecorder> recorder, const Clock& clock);

  struct Stats {
    uint64_t refused_old = 0;  // calls of a generation that is over
    uint64_t waiting = 0;      // calls for a group that this worker has not made yet
  };
  Stats stats() const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // the hash of the group's name, and the generation
  // A step that runs with the receiver of a call, or with null and the reason why there is no
  // receiver.
  using Visit = absl::AnyInvocable<void(LaneReceiver*, const absl::Status&)>;

  template <typename Request, typename Response, typename Use>
  Handler HandlerOf(Use use);
  // Calls `visit` with the receiver of the group: at once, or when the group is made.
  void Find(const Key& key, Visit visit);
  // Returns the place for the payload of a frame with this header, or null if the frame's group has
  // not been made (LaneReceiver::PlaceOf).
  std::shared_ptr<ReceivePlace> PlaceOf(absl::string_view header, size_t bytes);
  proto::GetFlightRecordResponse Flights(const proto::GetFlightRecordRequest& request) const;

  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<LaneReceiver>> receivers_ ABSL_GUARDED_BY(mutex_);
  // The newest generation of each group, by the hash of the group's name.
  std::map<uint64_t, uint64_t> newest_ ABSL_GUARDED_BY(mutex_);
  // The hash of the only group name that is not over.
  std::optional<uint64_t> only_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::vector<Visit>> waiting_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  struct Flight {
    std::shared_ptr<const FlightRecorder> recorder;  // the recorder is shared with its group
    const Clock* clock = nullptr;
  };
  std::deque<Flight> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
