#pragma once

// The calls that wait at the scheduler: Schedule waits for room, Join for the end of all closures,
// Done for the end of the closures that an error left in flight. A waiting call may give up; then
// its completion never runs, and it no longer holds other calls back.

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

// The id of a waiting call. Ids count from 1; 0 means no wait.
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
  // Removes a waiting call. Returns false if the call has been taken already.
  bool Remove(WaitId id);

  bool empty() const { return schedules_.empty() && joins_.empty() && dones_.empty(); }
  bool HasJoin() const { return !joins_.empty(); }
  bool HasSchedule() const { return !schedules_.empty(); }

  // Take the oldest call first. At least one call of the kind must wait.
  Admission TakeSchedule();
  std::vector<Done> TakeJoins();
  // Takes all waiting Done calls, whose error was delivered to another call.
  std::vector<Done> TakeDones();
  // Takes the one call that receives an error: a Done before a Join before a Schedule. If it is a
  // Schedule, its closure is returned too and must be cancelled; otherwise `closure` is nullptr. At
  // least one call must wait.
  Admission TakeObserver();

  // Returns the calls that wait, as "2 Join, 3 Schedule".
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
