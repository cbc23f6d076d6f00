#pragma once

// The order of gang closures on their way to the workers, which keep this order
// (worker/gang/gang_line.h). Each gang that is sent gets the next place in a generation. When a
// gang does not end well, the worker refuses the gangs after it. So nothing more is sent until all
// gangs that were sent have come back; then a new generation begins with the oldest closure that is
// not done. A gang never runs before an older gang is done.
//
// If generation after generation fails while the members stay the same, all members are alive and
// do not reach one another. The next generation is then sent after a growing pause, so that the
// network has time to heal before the closure is given up.
//
// Gangs of several workers run on the members that are in step (coordinator/recovery/copies.h). The
// set of members in step changes only between two generations. A copy of variables is made while
// gangs are held. A member that joins is out of step until it has got its first copy, even after a
// restore, because the restore may have begun before the member joined.

#include <cstdint>
#include <set>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/schedule/closure.h"
#include "proto/worker.pb.h"

namespace cohort {

// Workers that are apart: they cannot exchange calls with tasks that they need, and neither side is
// to blame.
struct WorkersApart {
  std::set<int> idle;      // workers that are given no closures
  std::set<int> left_out;  // members that are out of step until they may join the group again
};

// Thread-compatible.
class GangLineup {
 public:
  static constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
  static constexpr absl::Duration kPauseMax = absl::Seconds(30);

  // Makes a lineup for gangs that run on one worker. Such a lineup has no members, and every worker
  // counts as in step.
  GangLineup() = default;
  explicit GangLineup(std::set<int> members) : members_(std::move(members)), several_(true) {}

  // Returns whether the oldest gang that is queued may be sent.
  bool IsOpen(absl::Time now) const {
    return !held_ && (!broken_ || sent_.empty()) && now >= not_before_;
  }
  // Notes that a gang with `steps` steps is sent, and returns its place in the generation. Each
  // step has a place of its own.
  proto::Gang Send(ClosureId id, size_t steps, absl::Time now);
  // Ends the pause, because steps of a closure have now ended well.
  void Advance();
  // Notes that the run of a gang that was sent has ended; `done` if it ended well.
  void End(ClosureId id, bool done, absl::Time now);
  // Returns when the pause ends; a time in the past if there is no pause.
  absl::Time not_before() const { return not_before_; }
  // Forgets all gangs that were sent, whatever their calls answer later.
  void TakeBack();

  // Returns the session of the current generation. A fence of this session refuses the late pushes
  // of all gangs of the generation. The top bit keeps these sessions apart from the sessions of
  // lanes.
  uint64_t session() const { return (uint64_t{1} << 63) | generation_; }

  // Notes that late pushes of the generation with this session are refused from now on. Members
  // whose pushes are refused for this reason are not to blame.
  void SetFenced(uint64_t session);
  bool IsFenced(uint64_t session) const { return session <= fenced_; }

  void OutOfStep(int worker);
  void InStep(int worker);
  // Notes that a restore has put back every copy of the variables, so all members are in step.
  void AllInStep();
  // Add the worker to the members, or remove the worker from them.
  void Join(int worker);
  void Leave(int worker);
  bool IsInStep(int worker) const {
    return !several_ || (members_.count(worker) > 0 && out_of_step_.count(worker) == 0 &&
                         joining_.count(worker) == 0);
  }
  const std::set<int>& members() const { return members_; }
  void SetApart(WorkersApart apart);
  bool IsIdle(int worker) const { return apart_.idle.count(worker) > 0; }
  // Returns whether a member is alive, although other members report that they do not reach it. A
  // member whose own call broke is out of step, and so does not count as alive.
  bool IsAlive(int worker) const { return IsInStep(worker) || apart_.left_out.count(worker) > 0; }

  // Keeps gangs from being sent from now on. TakeHeld() hands out `held` when no gang is in flight.
  using Held = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Held held);
  void Release();
  // Returns, once, the callback that Hold was given, if no gang that was sent is in flight; else
  // nullptr.
  Held TakeHeld();

  // Aborts unless each gang that was sent has a place in the current generation, and only members
  // of the gang are joining.
  void CheckInvariants() const;

 private:
  void EndPause();

  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool broken_ = true;  // true if the next gang that is sent begins a generation
  int failures_ = 0;    // failed generations in a row, with the same members
  absl::Time not_before_ = absl::InfinitePast();
  std::set<ClosureId> sent_;
  std::set<int> members_;
  bool several_ = false;
  std::set<int> out_of_step_;  // members that are out of step
  std::set<int> joining_;      // members that have got no copy of the variables yet
  WorkersApart apart_;
  uint64_t fenced_ = 0;  // the highest session of a generation whose late pushes are refused
  bool held_ = false;
  Held on_held_;
};

}  // namespace cohort
