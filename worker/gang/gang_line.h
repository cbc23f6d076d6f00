#pragma once

// The queue of this worker's gangs. A gang has its turn to run when the gang before it, by
// sequence, has ended well. Requests arrive in any order, and a gang reads its batch while it
// waits.
//
//   waits --its turn--> runs --ended well--> the next gang's turn
//     \                    \--failed--> the generation is broken
//      \--the generation is broken, or a later generation has begun--> refused
//
// A later generation begins when its first gang arrives. The coordinator starts a generation only
// when every gang of the last generation has ended, or when the pushes that are still under way are
// fenced: no ps accepts them.

#include <cstdint>
#include <map>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "proto/worker.pb.h"

namespace cohort {

// The queue in which the gangs of one worker wait for their turn to run. Thread-safe.
class GangLine {
 public:
  // The callback of a gang. Receives OK when the gang may run. Errors: ABORTED (TRANSIENT) if the
  // gang is refused.
  using Turn = absl::AnyInvocable<void(absl::Status)>;

  // Refuses the waiting gangs. From now on, generations are those of another coordinator.
  void Restart();

  // Waits for the gang's turn. `turn` runs once, inside this call or in a later call of another
  // gang.
  void Wait(const proto::Gang& gang, Turn turn);
  // Ends a gang. Called once for every gang that arrived, whether the gang had its turn or was
  // refused.
  void End(const proto::Gang& gang, bool ended_well);

 private:
  friend class InvariantsAfter<GangLine>;
  using Turns = std::map<uint64_t, Turn>;  // callbacks of waiting gangs, by sequence

  // Aborts the process if gangs wait in a broken generation, or if a waiting gang is not behind the
  // gang that has its turn.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins `generation` if it is newer than the present generation, and returns the gangs that wait
  // in the older generation. The caller refuses these gangs outside the lock.
  Turns EnterLocked(uint64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;  // sequence of the gang whose turn to run it is
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  Turns waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
