#pragma once

// Answers copies of a gang's request. A network may deliver one request twice, but a gang must not
// run twice: the second run would take another gang's place in the sums and change the variables
// again. Copies are recognised by the request's epoch and the gang's place in its generation:
//
//   the first copy runs; a copy that arrives before the gang has ended gets the same answer;
//   a copy that arrives later is answered with STALE. The coordinator then does not rely on this
//   worker's variables, unless it has received the first answer.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "proto/worker.pb.h"

namespace cohort {

// The answers to the requests to run gangs on this worker. Thread-safe.
class GangAnswers {
 public:
  using Replied = TypedReply<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

  // Returns true for the first copy of a request: the caller must run the gang and then call End().
  // For other copies, this object answers `reply`.
  bool Begin(const proto::RunClosureRequest& request, Replied reply);
  // Answers all copies of the request with the result of the copy that ran.
  void End(const proto::RunClosureRequest& request, Answer answer);

 private:
  // A generation is (epoch, number); the later of two generations compares greater.
  using Generation = std::pair<uint64_t, uint64_t>;
  using Place = std::pair<Generation, uint64_t>;  // a gang as (generation, sequence)

  static Place PlaceOf(const proto::RunClosureRequest& request);

  bool HasEndedLocked(const Place& place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Place, std::vector<Replied>> running_ ABSL_GUARDED_BY(mutex_);
  Generation newest_ ABSL_GUARDED_BY(mutex_);
  // The sequences that have ended in the newest generation: all below ended_below_, and those in
  // ended_.
  uint64_t ended_below_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
