#pragma once

// The calls that wait at the scheduler: Schedule for room in the queue, Join for the end of all
// closures, Done for the end of the closures that are still in flight after an error. A caller may
// give up its waiting call; then the call's completion never runs, and the call no longer holds
// back other calls.

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

// The id of a waiting call. Ids count from 1; 0 means that no call waits.
struct WaitId {
  uint64_t value = 0;
};

// The calls that wait at one scheduler. Thread-compatible.
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
  // Removes a waiting call, whose completion then never runs. Returns false if the call does not
  // wait any more.
  bool Remove(WaitId id);

  bool empty() const { return schedules_.empty() && joins_.empty() && dones_.empty(); }
  bool HasJoin() const { return !joins_.empty(); }
  bool HasSchedule() const { return !schedules_.empty(); }

  // Removes and returns the oldest waiting Schedule, or all waiting Joins, oldest first. Before
  // TakeSchedule, at least one Schedule must wait.
  Admission TakeSchedule();
  std::vector<Done> TakeJoins();
  // Removes and returns all waiting Done calls. Called when another call has received the error for
  // which they wait.
  std::vector<Done> TakeDones();
  // Removes and returns the one call that is to receive an error: the oldest Done, or else the
  // oldest Join, or else the oldest Schedule. For a Schedule, `closure` is its closure, which the
  // caller must cancel; otherwise `closure` is nullptr. At least one call must wait.
  Admission TakeObserver();

  // Returns how many calls of each kind wait, as "2 Join, 3 Schedule".
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
