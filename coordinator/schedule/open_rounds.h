#pragma once

// The state of synchronous rounds. The closures of a round read the same values, and each slice
// applies the first `aggregate` pushes of the round as one update (ps_server/slice/round_pushes.h).
// Until `aggregate` closures of the round are answered, a slice may only have kept their pushes,
// and no checkpoint contains kept pushes. So an answered closure is done only when `aggregate`
// closures of its round are answered. A closure that is answered after that is done at once,
// because the slices have dropped its push. The numbers of rounds ascend with the ids of closures.
//
// A round may be half applied, which means applied in some slices and not in others. This is
// possible from the moment when `aggregate` of its closures have begun until the round is known to
// be applied. No checkpoint is taken during that time: after a restore, a step of the round that
// runs again would read values from before and after the round. While the snapshots of a checkpoint
// are taken, no further round may become half applied. Only the last round can be half applied.
// Gangs are rounds of one closure each, and each gang is recorded by itself: several gangs may be
// under way, and may be answered in any order. A gang that changes no variable has the number of
// the round after it.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// The synchronous rounds that one scheduler has under way. Thread-compatible.
class OpenRounds {
 public:
  using Closures = std::vector<std::shared_ptr<Closure>>;

  // Returns whether all slices are known to have applied the round.
  bool IsApplied(uint64_t round) const { return round <= applied_; }
  // Returns whether an earlier round is not complete: it has answered closures, but fewer than its
  // `aggregate`.
  bool HasOlder(uint64_t round) const;
  bool empty() const { return answered_.empty(); }

  // Notes that a closure is sent to a worker. Does nothing for a closure without a round.
  void Begin(const Closure& closure);
  // Begins to hold rounds: until Release(), closures that could make another round half applied
  // must wait (IsHeld). `ready` is what TakeReady() returns once no round may be half applied.
  using Ready = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Ready ready);
  // Returns the callback that Hold() was given, if no round may be half applied now; else nullptr.
  // The callback is returned only once. If `broken` is true, an error has broken a round off, and
  // the callback is returned although the round may be half applied.
  Ready TakeReady(bool broken);
  // Returns OK if no round may be half applied, else FAILED_PRECONDITION naming the broken round
  // because of which no checkpoint can be taken.
  absl::Status HoldStatus() const;
  void Release();
  // Returns whether the closure's round has begun and is not known to be applied. For a gang,
  // returns whether the gang itself has begun.
  bool IsUnderWay(const Closure& closure) const;
  // Returns whether the closure must wait until Release(): rounds are held, and the closure could
  // make its round half applied.
  bool IsHeld(const Closure& closure) const;

  // Records that a closure of a round is answered. Returns the closures that are done because of
  // this answer, in ascending order of their ids.
  Closures Answer(std::shared_ptr<Closure> closure);
  // Gives up all rounds under way. Returns the closures that are answered but not done.
  Closures TakeAnswered();
  // Forgets which rounds were applied. Called for a restore, which may take rounds back; slices
  // report again which rounds they have applied.
  void Forget();
  // Returns how many closures were answered and are not done.
  size_t answered() const { return answered_.size(); }

  // Aborts unless all answered closures belong to rounds that are not applied, and at most one
  // round (gangs aside) is recorded as begun.
  void CheckInvariants() const;

 private:
  Closures Answered();
  // Returns the number of a round that may be half applied, or nullptr if there is none.
  const uint64_t* MayBeHalfApplied() const;

  // A round that has begun: at least one of its closures was sent to a worker.
  struct Begun {
    uint32_t aggregate = 1;
    std::set<ClosureId> closures;
    bool IsFull() const { return closures.size() >= aggregate; }
  };

  uint64_t applied_ = 0;
  // Closures that are answered but not done, because their rounds are not applied.
  std::map<ClosureId, std::shared_ptr<Closure>> answered_;
  std::map<uint64_t, Begun> begun_;  // rounds that have begun and are not applied, by number
  // The rounds of gangs that were sent and are not done, even if they were put back into the queue
  // since. Gangs that change no variable are included: if such a gang runs again, it must find the
  // same values as in its first run.
  std::map<ClosureId, uint64_t> gangs_;
  bool held_ = false;
  Ready ready_;
};

}  // namespace cohort
