#pragma once

// Synchronous closures. Those of a round read the same values, and each slice applies the first so
// many of them that it gets as one (ps_server/slice/round_pushes.h). So a closure that was answered
// is done only when so many are: a slice may have kept its push until then, and no checkpoint has
// what is kept. What is answered later was dropped by the slices, and is done. Rounds ascend with
// the closures' ids.
//
// Between the moment that so many closures of a round have begun and the moment that it is known to
// be applied, some slices may have it and others not. No checkpoint is taken then: a step that runs
// again after a restore would read values of before and after its own round. Until a checkpoint has
// its snapshots, no round comes to that point. Of rounds one may be at it, the last. Gangs are
// rounds of one closure each, and each is known by itself: several may be under way, and be
// answered in any order. One that changes nothing has the number of the round behind it.

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

  // Returns whether slices have applied the round, as far as is known.
  bool IsApplied(uint64_t round) const { return round <= applied_; }
  // Returns whether an earlier round than this one has answers that wait for more.
  bool HasOlder(uint64_t round) const;
  bool empty() const { return answered_.empty(); }

  // Notes that a closure of a round is sent to a worker.
  void Begin(const Closure& closure);
  // Keeps rounds from coming to that point until Release.
  using Ready = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Ready ready);
  // Returns what Hold was given, once, when no round is there any more, or if `broken`: an error
  // has ended what is there, and nobody has heard of it.
  Ready TakeReady(bool broken);
  // Returns why there is no checkpoint then.
  absl::Status HoldStatus() const;
  void Release();
  // Returns whether closures of its round have begun and it takes more, or the closure itself has.
  bool IsUnderWay(const Closure& closure) const;
  // Returns whether the closure has to wait for that.
  bool IsHeld(const Closure& closure) const;

  // Takes the answer of a closure of a round. Returns the closures that are done with it, by
  // ascending ids.
  Closures Answer(std::shared_ptr<Closure> closure);
  // Takes what was answered and is not done; it is given up, and so is the round.
  Closures TakeAnswered();
  // Forgets which rounds were applied: a restore may take rounds back, and slices report again
  // which they have.
  void Forget() { applied_ = 0; }
  // Returns how many closures were answered and are not done.
  size_t answered() const { return answered_.size(); }

  // Aborts unless what is kept is of rounds that are not applied, and at most one was begun.
  void CheckInvariants() const;

 private:
  Closures Answered();
  // Returns a round that only some slices may have, or nullptr.
  const uint64_t* MayBeHalfApplied() const;

  // A round that closures were sent of.
  struct Begun {
    uint32_t aggregate = 1;
    std::set<ClosureId> closures;
    bool IsFull() const { return closures.size() >= aggregate; }
  };

  uint64_t applied_ = 0;
  std::map<ClosureId, std::shared_ptr<Closure>> answered_;  // answers of rounds after `applied_`
  std::map<uint64_t, Begun> begun_;                         // by number; not done
  // Rounds of gangs that were sent, or put back since, and are not done. Also of those that change
  // nothing: one that runs again must find what it found.
  std::map<ClosureId, uint64_t> gangs_;
  bool held_ = false;
  Ready ready_;
};

}  // namespace cohort
