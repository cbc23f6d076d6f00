#pragma once

// The order in which gangs are sent to the workers; the workers keep this order
// (worker/gang/gang_line.h). Each gang that is sent gets the next place in a generation. If a gang
// does not end well, the workers refuse the gangs after it. The lineup then sends nothing until all
// gangs that were sent have come back, and begins a new generation with the oldest gang that is not
// done. A gang never runs before an older gang is done.
//
// If several generations in a row fail with the same members, all members are alive but do not
// reach one another. The next generation is then sent after a growing pause, so that the network
// has time to heal before the closure is given up.
//
// Gangs of several workers run on the members that are in step (coordinator/recovery/copies.h). The
// set of members in step changes only between two generations. While a member gets a copy of the
// variables, no gang is sent. A member that joins is out of step until it has got its first copy,
// even if a restore puts back all other members: the restore may have begun before the member
// joined.

#include <cstdint>
#include <set>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/schedule/closure.h"
#include "proto/worker.pb.h"

namespace cohort {

// Workers that are apart: each lives, but does not reach a task that it needs, and neither of the
// two tasks is to blame.
struct WorkersApart {
  std::set<int> idle;      // workers that get no closures
  std::set<int> left_out;  // members that leave the group until they reach the others
};

// The lineup of the gangs of one scheduler. Thread-compatible.
class GangLineup {
 public:
  static constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
  static constexpr absl::Duration kPauseMax = absl::Seconds(30);

  // Makes a lineup for gangs that run on one worker each. Such a lineup has no members, and every
  // worker counts as in step.
  GangLineup() = default;
  explicit GangLineup(std::set<int> members) : members_(std::move(members)), several_(true) {}

  // Returns whether the oldest queued gang may be sent now.
  bool IsOpen(absl::Time now) const {
    return !held_ && (!broken_ || sent_.empty()) && now >= not_before_;
  }
  // Notes that a gang with `steps` steps is sent. Returns the gang's generation and the place of
  // its first step; each further step takes the next place.
  proto::Gang Send(ClosureId id, size_t steps, absl::Time now);
  // Ends the pause between failed generations, because steps of a closure have now ended well.
  void Advance();
  // Notes that the run of a gang that was sent has ended; `done` says whether it ended well.
  void End(ClosureId id, bool done, absl::Time now);
  // Returns the time at which the pause between failed generations ends. If there is no pause, this
  // time is in the past.
  absl::Time not_before() const { return not_before_; }
  // Forgets all gangs that were sent and have not ended. Answers of their calls no longer count.
  void TakeBack();

  // Returns the session of the current generation, under which all pushes of its gangs are sent and
  // can be fenced. Sessions of generations have the top bit set, which sessions of single workers
  // have not.
  uint64_t session() const { return (uint64_t{1} << 63) | generation_; }

  // Notes that the late pushes of the generation with this session, and of earlier ones, are
  // refused from now on. A member whose pushes are refused for this reason is not to blame.
  void SetFenced(uint64_t session);
  bool IsFenced(uint64_t session) const { return session <= fenced_; }

  void OutOfStep(int worker);
  void InStep(int worker);
  // Notes that a restore has put back every copy of the variables, so that all members are in step,
  // except those that are still joining.
  void AllInStep();
  // Add a worker to the members of gangs, or remove it from them.
  void Join(int worker);
  void Leave(int worker);
  bool IsInStep(int worker) const {
    return !several_ || (members_.count(worker) > 0 && out_of_step_.count(worker) == 0 &&
                         joining_.count(worker) == 0);
  }
  const std::set<int>& members() const { return members_; }
  void SetApart(WorkersApart apart);
  bool IsIdle(int worker) const { return apart_.idle.count(worker) > 0; }
  // Returns whether a member counts as alive, even if other members report that they do not reach
  // it. Members in step are alive, and so are members that were left out only because they are
  // apart. A member whose own call broke is out of step and does not count as alive.
  bool IsAlive(int worker) const { return IsInStep(worker) || apart_.left_out.count(worker) > 0; }

  // Stops the sending of gangs until Release(). `held` is what TakeHeld() returns once no gang is
  // in flight.
  using Held = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Held held);
  void Release();
  // Returns the callback that Hold() was given, if no gang is in flight; else nullptr. The callback
  // is returned only once.
  Held TakeHeld();

  // Aborts unless the gangs that were sent have places in the current generation, and every worker
  // that is joining is a member.
  void CheckInvariants() const;

 private:
  void EndPause();

  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool broken_ = true;  // whether the next gang begins a generation
  int failures_ = 0;    // failed generations in a row with the same members
  absl::Time not_before_ = absl::InfinitePast();
  std::set<ClosureId> sent_;
  std::set<int> members_;
  bool several_ = false;
  std::set<int> out_of_step_;  // members that a failure or loss has put out of step
  std::set<int> joining_;      // members that have not got their first copy of the variables
  WorkersApart apart_;
  uint64_t fenced_ = 0;  // highest fenced session of a generation
  bool held_ = false;
  Held on_held_;
};

}  // namespace cohort
