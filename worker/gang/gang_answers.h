#pragma once

// A network may deliver one request twice, and a gang must not run twice: it would take another
// one's place in the sums, and change the variables again. So copies of a gang's request are known
// by their epoch and their place in its generation:
//
//   the first one runs; a copy that comes before it has ended gets the same answer;
//   a copy that comes later is answered with STALE: the coordinator then does not rely on what is
//   here, unless it has heard the first answer.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/typed_call.h"
#include "proto/worker.pb.h"

namespace cohort {

// Thread-safe.
class GangAnswers {
 public:
  using Replied = TypedReply<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

  // Returns true if the caller is to run the gang, and to End it. Otherwise the reply is taken care
  // of.
  bool Begin(const proto::RunClosureRequest& request, Replied reply);
  // Gives all requests the answer of the one that ran.
  void End(const proto::RunClosureRequest& request, Answer answer);

 private:
  using Generation = std::pair<uint64_t, uint64_t>;  // epoch, number: of two the later is more
  using Place = std::pair<Generation, uint64_t>;     // a generation and a sequence

  static Place PlaceOf(const proto::RunClosureRequest& request);

  bool HasEndedLocked(const Place& place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Place, std::vector<Replied>> running_ ABSL_GUARDED_BY(mutex_);
  Generation newest_ ABSL_GUARDED_BY(mutex_);
  // sequences of the generation; and these besides
  uint64_t ended_below_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
