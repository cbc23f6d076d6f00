#pragma once

// The order of gang closures, which a worker keeps (worker/gang/gang_line.h): each one sent gets
// the next place in a generation. When one does not end well, the worker refuses those behind
// it; so nothing more is sent until all that were have come back, and then a new generation begins
// with the oldest closure that is not done. A gang never runs before an older one is done.
//
// Where generation after generation fails and the members stay the same, they are all there and do
// not reach one another: the next one is sent after a pause, which grows, so that what is between
// them has time to heal before the closure is given up.
//
// Gangs of several workers run on the members that are in step (coordinator/recovery/copies.h).
// Which are comes and goes between two generations. A copy of variables is made while gangs are
// held. A member that joins is out of step until it has got its first copy, also behind a restore,
// which may have begun before it came.

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/schedule/closure.h"
#include "proto/worker.pb.h"

namespace cohort {

// Workers to which, or from which, tasks that they need are not reached. Nobody is to blame.
struct WorkersApart {
  std::set<int> idle;      // take nothing
  std::set<int> left_out;  // members out of step until they may join the group again
};

// Thread-compatible.
class GangLineup {
 public:
  static constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
  static constexpr absl::Duration kPauseMax = absl::Seconds(30);

  // Makes a lineup for gangs that run on one worker, which have no members: whichever worker it is,
  // it is in step.
  GangLineup() = default;
  explicit GangLineup(std::set<int> members) : members_(std::move(members)), several_(true) {}

  // Returns whether the oldest gang may be sent.
  bool IsOpen(absl::Time now) const {
    return !held_ && (!broken_ || sent_.empty()) && now >= not_before_;
  }
  // Notes that a gang is sent, with so many steps, each of which has a place of its own.
  proto::Gang Send(ClosureId id, size_t steps, absl::Time now);
  // Steps of a closure have ended well that did not before.
  void Advance() { EndPause(); }
  // Notes that a gang has come back.
  void End(ClosureId id, bool done, absl::Time now);
  // Returns when the pause ends; in the past without one.
  absl::Time not_before() const { return not_before_; }
  // Takes back what was sent, whatever becomes of it.
  void TakeBack();

  // Returns the session by which pushes of the gangs that are sent now are fenced: a generation
  // ends as a whole. It is above all sessions of lanes.
  uint64_t session() const { return (uint64_t{1} << 63) | generation_; }

  // Notes that late pushes of a generation are refused from now on: its members are not to blame
  // for it.
  void SetFenced(uint64_t session) { fenced_ = std::max(fenced_, session); }
  bool IsFenced(uint64_t session) const { return session <= fenced_; }

  void OutOfStep(int worker);
  void InStep(int worker);
  // Notes that every copy was put back.
  void AllInStep();
  // Make the worker a member from now on, or no more.
  void Join(int worker);
  void Leave(int worker);
  bool IsInStep(int worker) const {
    return !several_ || (members_.count(worker) > 0 && out_of_step_.count(worker) == 0 &&
                         joining_.count(worker) == 0);
  }
  const std::set<int>& members() const { return members_; }
  void SetApart(WorkersApart apart);
  bool IsIdle(int worker) const { return apart_.idle.count(worker) > 0; }
  // Returns whether a member is there, although others say that it is not: its own call has not
  // broken, which would put it out of step.
  bool IsAlive(int worker) const { return IsInStep(worker) || apart_.left_out.count(worker) > 0; }

  // Keeps gangs from being sent from now on.
  using Held = absl::AnyInvocable<void(absl::Status)>;
  void Hold(Held held);
  void Release();
  // Returns what Hold was given, once, when nothing that was sent is left.
  Held TakeHeld();

  // Aborts unless what was sent is of one generation, and members alone are joining.
  void CheckInvariants() const;

 private:
  void EndPause();

  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  bool broken_ = true;  // the next one begins a generation
  int failures_ = 0;    // failed generations of the same members, in a row
  absl::Time not_before_ = absl::InfinitePast();
  std::set<ClosureId> sent_;
  std::set<int> members_;
  bool several_ = false;
  std::set<int> out_of_step_;  // members
  std::set<int> joining_;      // members that have got no copy yet
  WorkersApart apart_;
  uint64_t fenced_ = 0;  // the last of generations whose pushes are refused
  bool held_ = false;
  Held on_held_;
};

}  // namespace cohort
