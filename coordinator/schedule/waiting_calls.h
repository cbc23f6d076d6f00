#pragma once

// The calls that wait at the scheduler: Schedule for room, Join for the end of everything, Done for
// the end of what an error leaves in flight. A waiting call may give up; then its completion never
// runs and it holds nobody else back.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

// Counts from 1; 0 is no wait.
struct WaitId {
  uint64_t value = 0;
};

// Thread-compatible.
class WaitingCalls {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Admission {
    std::shared_ptr<Closure> closure;
    Done admitted;
  };

  WaitId AddSchedule(Admission admission);
  WaitId AddJoin(Done done);
  WaitId AddDone(Done done);
  // Removes a wait. Returns false if it has been taken already.
  bool Remove(WaitId id);

  bool empty() const { return schedules_.empty() && joins_.empty() && dones_.empty(); }
  bool HasJoin() const { return !joins_.empty(); }
  bool HasSchedule() const { return !schedules_.empty(); }

  // Each takes the oldest first. There must be one.
  Admission TakeSchedule();
  std::vector<Done> TakeJoins();
  // Takes each Done that saw an error which another call was given.
  std::vector<Done> TakeDones();
  // Takes the one call that is given an error: a Done before a Join before a Schedule, whose
  // closure is then to be cancelled (nullptr for the others). There must be a call.
  Admission TakeObserver();

  // Returns "2 Join, 3 Schedule".
  std::string ToString() const;

 private:
  template <typename Call>
  static Call TakeFirst(std::map<uint64_t, Call>& calls);
  template <typename Call>
  WaitId Add(std::map<uint64_t, Call>& calls, Call call);

  uint64_t last_id_ = 0;
  std::map<uint64_t, Admission> schedules_;
  std::map<uint64_t, Done> joins_, dones_;
};

}  // namespace cohort
