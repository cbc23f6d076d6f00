#pragma once

// Answers copies of a request to run a gang. A network may deliver one request twice, but the gang
// must not run twice: the second run would take another gang's place in the sums and change the
// variables again. Requests are copies of each other if their epoch, generation and sequence are
// equal:
//
//   the first copy runs; a copy that arrives before the gang has ended gets the same answer;
//   a copy that arrives later is answered with STALE.
//
// A coordinator that gets STALE without having received the first answer does not rely on this
// worker's variables any more.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "proto/worker.pb.h"

namespace cohort {

// The answers to requests to run gangs on this worker. Thread-safe.
class GangAnswers {
 public:
  using Replied = TypedReply<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

  // Returns true for the first copy of a request and keeps `reply`: the caller must run the gang
  // and then call End(). Returns false for any other copy: `reply` then runs in End(), or at once
  // if the gang has ended.
  bool Begin(const proto::RunClosureRequest& request, Replied reply);
  // Answers all copies of the request with the result of the run of the first copy.
  void End(const proto::RunClosureRequest& request, Answer answer);

 private:
  // An epoch and the number of a generation in the epoch; a later generation compares greater.
  using Generation = std::pair<uint64_t, uint64_t>;
  // A gang, by its generation and its sequence number in it.
  using Place = std::pair<Generation, uint64_t>;

  static Place PlaceOf(const proto::RunClosureRequest& request);

  bool HasEndedLocked(const Place& place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Place, std::vector<Replied>> running_ ABSL_GUARDED_BY(mutex_);
  Generation newest_ ABSL_GUARDED_BY(mutex_);
  // The gangs that have ended in the newest generation: all sequence numbers below ended_below_,
  // and those in ended_.
  uint64_t ended_below_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
