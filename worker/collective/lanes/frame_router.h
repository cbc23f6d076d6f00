#pragma once

// The receiving end of a worker: the groups that the worker is in, and the service that hands each
// group what comes for it. A peer may make a group before this worker does: its calls wait for the
// group then. Calls of a generation that is over are refused and counted. The router also keeps the
// records of the last groups' calls, for operators who ask.

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

// Always owned by a shared_ptr: the service's handlers hold it. Thread-safe.
class FrameRouter : public std::enable_shared_from_this<FrameRouter> {
 public:
  // Returns the service for Transport::Listen.
  Service MakeService();

  // Routes calls for the group to the receiver from now on, as long as that lives; waiting ones go
  // to it inside this call. Calls that wait for older generations of the group are refused.
  void Add(const GroupName& group, std::weak_ptr<LaneReceiver> receiver);
  // Calls for it are refused from now on.
  void Remove(const GroupName& group);
  // Groups of other names are over, whether they were made here or not: calls for them are refused
  // from now on, also those that wait.
  void Only(const std::string& name);

  // Keeps a group's records for questions, also when the group is over, until some later groups
  // have been kept. The clock, by which the group records, outlives this.
  static constexpr size_t kFlightsMax = 4;
  void Keep(std::shared_ptr<const FlightRecorder> recorder, const Clock& clock);

  struct Stats {
    uint64_t refused_old = 0;  // calls of a generation that is over
    uint64_t waiting = 0;      // calls for a group that is not made yet
  };
  Stats stats() const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // group, generation
  // Runs with the receiver, or with null and why there is none.
  using Visit = absl::AnyInvocable<void(LaneReceiver*, const absl::Status&)>;

  template <typename Request, typename Response, typename Use>
  Handler HandlerOf(Use use);
  // Calls `visit` with the receiver of the group, now or when it is made.
  void Find(const Key& key, Visit visit);
  // Returns the place of a frame with this header, for a group that is here
  // (LaneReceiver::PlaceOf).
  std::shared_ptr<ReceivePlace> PlaceOf(absl::string_view header, size_t bytes);
  proto::GetFlightRecordResponse Flights(const proto::GetFlightRecordRequest& request) const;

  mutable Mutex mutex_;
  std::map<Key, std::weak_ptr<LaneReceiver>> receivers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> newest_ ABSL_GUARDED_BY(mutex_);  // generation, by group
  std::optional<uint64_t> only_ ABSL_GUARDED_BY(mutex_);         // group
  std::map<Key, std::vector<Visit>> waiting_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  struct Flight {
    std::shared_ptr<const FlightRecorder> recorder;  // shared with its group
    const Clock* clock = nullptr;
  };
  std::deque<Flight> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
