#pragma once

// The fences that the scheduler needs. A fence is an order to every parameter server to refuse late
// pushes: pushes that a worker may still send for a run that the scheduler has given up. There are
// two kinds of fences. The fence of an error refuses the pushes of all closures that have ended. It
// is needed if an attempt has ended without an answer of its worker, and the error is delivered
// only after this fence. The fence of a session refuses what one worker may still push in that
// session. Closures that ran in the session are put back into the queue only after this fence.
//
// State of the fence of an error:
//
//   not needed --Need--> needed --Begin--> under way --End--> not needed
//                          ^-----Need---------'                   any --Forget--> not needed

#include <cstdint>
#include <set>

namespace cohort {

// The fences of one scheduler. Thread-compatible.
class Fences {
 public:
  // Notes that a worker may still send a late push which no fence under way refuses.
  void Need() { state_ = State::kNeeded; }
  // Notes that no fence is needed any more: all late pushes are of an epoch that has ended, and
  // parameter servers refuse them for that reason.
  void Forget() { state_ = State::kNotNeeded; }
  bool IsNeeded() const { return state_ != State::kNotNeeded; }
  bool IsUnderWay() const { return state_ == State::kUnderWay; }
  // Begins a fence of an error. Returns the fence's number, which the caller passes to End().
  uint64_t Begin() {
    state_ = State::kUnderWay;
    return ++begun_;
  }
  // Notes that the fence `number` has ended. Returns false if that means nothing any more,
  // because Begin(), Need() or Forget() was called after this fence began.
  bool End(uint64_t number) {
    if (number != begun_ || state_ != State::kUnderWay) return false;
    state_ = State::kNotNeeded;
    return true;
  }

  // Adds sessions that must be fenced. Returns those among them for which the caller has to ask for
  // a fence; for the others, a fence is already under way.
  std::set<uint64_t> Add(const std::set<uint64_t>& sessions) {
    std::set<uint64_t> added;
    for (const uint64_t session : sessions) {
      if (sessions_.insert(session).second) added.insert(session);
    }
    return added;
  }
  // Notes that every ps has confirmed that it refuses pushes of these sessions.
  void Confirm(const std::set<uint64_t>& sessions) {
    for (const uint64_t session : sessions) sessions_.erase(session);
  }
  bool IsFencing(uint64_t session) const { return sessions_.count(session) > 0; }
  // Returns the sessions for which a fence was requested and is not confirmed yet.
  const std::set<uint64_t>& sessions() const { return sessions_; }

 private:
  enum class State { kNotNeeded, kNeeded, kUnderWay };

  State state_ = State::kNotNeeded;
  uint64_t begun_ = 0;  // number of the newest fence of an error
  std::set<uint64_t> sessions_;
};

}  // namespace cohort
