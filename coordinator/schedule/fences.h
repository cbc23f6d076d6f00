#pragma once

// Which late pushes may still come, and must be refused by the parameter servers. There are two
// fences. The fence of an error is for all closures that have ended: it is needed once an attempt
// has ended without an answer of its worker, and an error is delivered behind it. The fence of a
// session is for what one worker may still push: what ran in the session is put back behind it.
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
  // Notes that whatever may still be pushed belongs to an epoch that has ended.
  void Forget() { state_ = State::kNotNeeded; }
  bool IsNeeded() const { return state_ != State::kNotNeeded; }
  bool IsUnderWay() const { return state_ == State::kUnderWay; }
  // Begins the fence of an error. Returns the number for End.
  uint64_t Begin() {
    state_ = State::kUnderWay;
    return ++begun_;
  }
  // Notes that a fence has ended. Returns false if that says nothing: the fence is an older one, or
  // a push may have come since it was begun.
  bool End(uint64_t number) {
    if (number != begun_ || state_ != State::kUnderWay) return false;
    state_ = State::kNotNeeded;
    return true;
  }

  // Adds sessions that are to be fenced. Returns those that are not being fenced already, whose
  // first answer counts for all.
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
  uint64_t begun_ = 0;  // fences of errors so far; an answer to an older one says nothing
  std::set<uint64_t> sessions_;
};

}  // namespace cohort
