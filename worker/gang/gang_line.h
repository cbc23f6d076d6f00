#pragma once

// The gangs of this worker stand in line: each has its turn when the one before it, by sequence,
// has ended well. They come in any order, and read their batches while they wait.
//
//   waits --its turn--> runs --ended well--> the next one's turn
//     \                    \--failed--> the generation is broken
//      \--the generation is broken, or a later one has begun--> refused
//
// A later generation begins with its first gang that comes. The coordinator begins one when every
// gang of the last has ended, or what these still push is fenced.

#include <cstdint>
#include <map>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "proto/worker.pb.h"

namespace cohort {

// Thread-safe.
class GangLine {
 public:
  // OK: it is its turn. Errors: ABORTED (TRANSIENT).
  using Turn = absl::AnyInvocable<void(absl::Status)>;

  // Generations are another coordinator's from now on; what waits is refused.
  void Restart();

  // Waits for the gang's turn. `turn` runs once, in this call or in another one.
  void Wait(const proto::Gang& gang, Turn turn);
  // Ends a gang; called once for every gang that has come, whether it had its turn or was refused
  // before.
  void End(const proto::Gang& gang, bool ended_well);

 private:
  friend class InvariantsAfter<GangLine>;
  using Turns = std::map<uint64_t, Turn>;  // keyed by sequence

  // Aborts unless what waits is behind the one whose turn it is, in a generation that is not
  // broken.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the turns that are refused because this generation is newer. The caller refuses them
  // outside the lock.
  Turns EnterLocked(uint64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;  // whose turn it is
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  Turns waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
