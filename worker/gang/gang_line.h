#pragma once

// The queue of one worker's gangs, in the order of their sequence numbers. A gang has its turn when
// the gang before it has ended well. Requests arrive in any order, and a gang reads its batch while
// it waits for its turn.
//
//   waits --its turn--> runs --ended well--> the next gang's turn
//     \                    \--failed--> the generation is broken
//      \--the generation is broken, or a later generation has begun--> refused
//
// A later generation begins when its first gang arrives. The coordinator starts a generation only
// when every gang of the generation before has ended, or when pushes that are still under way are
// fenced: parameter servers refuse them.

#include <cstdint>
#include <map>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "proto/worker.pb.h"

namespace cohort {

// The queue in which the gangs of one worker wait for their turns. Thread-safe.
class GangLine {
 public:
  // The callback of a gang. Receives OK when the gang has its turn. Errors: ABORTED (TRANSIENT) if
  // the gang is refused.
  using Turn = absl::AnyInvocable<void(absl::Status)>;

  // Refuses the waiting gangs and forgets the generation, because another coordinator counts its
  // generations from the start.
  void Restart();

  // Waits for the gang's turn or its refusal. `turn` runs once, inside this call or inside a later
  // call for another gang.
  void Wait(const proto::Gang& gang, Turn turn);
  // Ends a gang, whether it had its turn or was refused. If it has not ended well, the generation
  // is broken. Called at least once for every gang that has arrived.
  void End(const proto::Gang& gang, bool ended_well);

 private:
  friend class InvariantsAfter<GangLine>;
  using Turns = std::map<uint64_t, Turn>;  // callbacks of waiting gangs, by sequence number

  // Crashes if gangs wait in a broken generation, or if the sequence number of a waiting gang is
  // not above that of the gang whose turn it is.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Begins `generation` if it is later than the present generation. Returns the gangs that waited
  // in the earlier generation; the caller refuses them outside the lock.
  Turns EnterLocked(uint64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;  // sequence number of the gang whose turn it is
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  Turns waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
