#pragma once

// The state of synchronous rounds. The closures of a round read the same values, and each slice
// applies the first `aggregate` pushes of the round as one update (ps_server/slice/round_pushes.h).
// So an answered closure is done only when `aggregate` closures of its round are answered: until
// then a slice may only have kept the push, and no checkpoint contains kept pushes. A closure that
// is answered after that is done at once, because the slices have dropped its push. The numbers of
// rounds ascend with the ids of closures.
//
// A round may be half applied, which means in some slices and not in others, from the moment when
// `aggregate` of its closures have begun until the round is known to be applied. No checkpoint is
// taken in that time: a step that runs again after a restore would read values of before and after
// its own round. Until the snapshots of a checkpoint are taken, no round is allowed to become half
// applied. Only the last round can be half applied. Gangs are rounds of one closure each, and each
// gang is tracked by itself: several gangs may be under way, and may be answered in any order. A
// gang that changes nothing has the number of the round after it.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// Thread-compatible.
class OpenRounds {
 public:
  using Closures = std::vector<std::shared_ptr<Closure>>;

  // Returns whether all slices are known to have applied the round.
  bool IsApplied(uint64_t round) const { return round <= applied_; }
  // Returns whether an earlier round has answered closures that wait for more answers of their
  // round.
  bool HasOlder(uint64_t round) const;
  bool empty() const { return answered_.empty(); }

  // Notes that a closure is sent to a worker; a closure without a round changes nothing.
  void Begin(const Closure& closure);
  // Keeps rounds from becoming half applied until Release().
  using Ready = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Ready ready);
  // Returns, once, the callback that Hold was given, if no round may be half applied. `broken` says
  // that an error, which no caller has observed, has ended the round; the callback is then returned
  // too.
  Ready TakeReady(bool broken);
  // Returns OK, or FAILED_PRECONDITION naming the broken round that keeps a checkpoint from being
  // taken.
  absl::Status HoldStatus() const;
  void Release();
  // Returns whether the closure's round has begun and is not known to be applied. For a gang:
  // whether the gang itself has begun.
  bool IsUnderWay(const Closure& closure) const;
  // Returns whether the closure must wait until Release(), because its round might become half
  // applied.
  bool IsHeld(const Closure& closure) const;

  // Records the answer of a closure of a round. Returns the closures that are done because of this
  // answer, by ascending ids.
  Closures Answer(std::shared_ptr<Closure> closure);
  // Returns the closures that are answered but not done, and gives up their rounds.
  Closures TakeAnswered();
  // Forgets which rounds were applied. A restore may take rounds back, and slices then report again
  // which rounds they have applied.
  void Forget();
  // Returns how many closures were answered and are not done.
  size_t answered() const { return answered_.size(); }

  // Aborts unless all answered closures are of rounds that are not applied, and at most one round
  // is tracked as begun.
  void CheckInvariants() const;

 private:
  Closures Answered();
  // Returns the number of a round that only some slices may have applied, or nullptr.
  const uint64_t* MayBeHalfApplied() const;

  // A round of which at least one closure was sent.
  struct Begun {
    uint32_t aggregate = 1;
    std::set<ClosureId> closures;
    bool IsFull() const { return closures.size() >= aggregate; }
  };

  uint64_t applied_ = 0;
  // Closures that are answered but not done; their rounds are later than `applied_`.
  std::map<ClosureId, std::shared_ptr<Closure>> answered_;
  std::map<uint64_t, Begun> begun_;  // rounds that have begun and are not done, by number
  // The rounds of gangs that were sent, or put back since, and are not done. Gangs that change
  // nothing are included: when such a gang runs again, it must find the same values.
  std::map<ClosureId, uint64_t> gangs_;
  bool held_ = false;
  Ready ready_;
};

}  // namespace cohort
