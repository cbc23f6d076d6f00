#pragma once

// The fences that the scheduler needs. A fence is an order to every parameter server to refuse late
// pushes, which are pushes that a worker may still send for a run that the scheduler has given up.
// There are two kinds. The fence of an error refuses the pushes of all closures that have ended: it
// is needed once an attempt has ended without an answer of its worker, and the error is delivered
// only after this fence. The fence of a session refuses what one worker may still push in that
// session: closures that ran in the session are put back only after this fence.
//
//   not needed --Need--> needed --Begin--> under way --End--> not needed
//                           ^-----Need---------'                   any --Forget--> not needed

#include <cstdint>
#include <set>

namespace cohort {

// The fences of one scheduler. Thread-compatible.
class Fences {
 public:
  // Notes that a late push may come that no fence under way refuses.
  void Need() { state_ = State::kNeeded; }
  // Notes that all late pushes are of an epoch that has ended, which parameter servers refuse
  // without a fence.
  void Forget() { state_ = State::kNotNeeded; }
  bool IsNeeded() const { return state_ != State::kNotNeeded; }
  bool IsUnderWay() const { return state_ == State::kUnderWay; }
  // Begins the fence of an error. Returns the fence's number, which is the argument of End.
  uint64_t Begin() {
    state_ = State::kUnderWay;
    return ++begun_;
  }
  // Notes that the fence `number` has ended. Returns false if a late push is still possible,
  // because a newer fence was begun or Need() was called since.
  bool End(uint64_t number) {
    if (number != begun_ || state_ != State::kUnderWay) return false;
    state_ = State::kNotNeeded;
    return true;
  }

  // Adds sessions to fence. Returns only the sessions whose fence is not under way yet: for all
  // others, the answer to the earlier request will do.
  std::set<uint64_t> Add(const std::set<uint64_t>& sessions) {
    std::set<uint64_t> added;
    for (const uint64_t session : sessions) {
      if (sessions_.insert(session).second) added.insert(session);
    }
    return added;
  }
  // Notes that every ps has confirmed the fence of these sessions.
  void Confirm(const std::set<uint64_t>& sessions) {
    for (const uint64_t session : sessions) sessions_.erase(session);
  }
  bool IsFencing(uint64_t session) const { return sessions_.count(session) > 0; }
  // Returns the sessions whose fence is not confirmed.
  const std::set<uint64_t>& sessions() const { return sessions_; }

 private:
  enum class State { kNotNeeded, kNeeded, kUnderWay };

  State state_ = State::kNotNeeded;
  uint64_t begun_ = 0;  // number of the newest fence of an error
  std::set<uint64_t> sessions_;
};

}  // namespace cohort
