#pragma once

// Pairs of tasks that do not reach each other. The coordinator sees a star, itself and each task;
// tasks report whom they do not reach, and of each pair that is reported:
//
//   reported --the coordinator has heard both ends all the time, for a while--> broken
//   reported, broken --nobody reports it any more--> gone
//
// An end that the coordinator does not hear either is not a matter of the pair: it is away, or
// lost, which whoever watches it finds out.
//
// Which members are left out of a group for broken pairs is a pure function: the fewest, and of as
// few the youngest.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// The lesser one first.
using TaskPair = std::pair<TaskId, TaskId>;
TaskPair PairOf(TaskId one, TaskId other);

// Thread-compatible.
class Edges {
 public:
  // Makes edges; a pair is broken when it has been reported for `settle`.
  explicit Edges(absl::Duration settle) : settle_(settle) {}

  // Reports all peers that `from` does not reach now.
  void Report(TaskId from, const std::set<TaskId>& unreached, absl::Time now);
  // Forgets a process that is gone, and with it what it has reported.
  void Forget(TaskId from);

  struct Change {
    TaskPair pair;
    bool broken = false;  // or healed
  };
  // Returns the ends of pairs that are reported and not broken yet: if there are any, Update must
  // be called again.
  std::set<TaskId> Waiting() const;
  // Moves pairs on; `heard` are those of Waiting() that the coordinator hears. Returns what has
  // changed, in order.
  std::vector<Change> Update(absl::Time now, const std::set<TaskId>& heard);

  const std::set<TaskPair>& broken() const { return broken_; }
  // Returns the tasks that are in a broken pair with this one.
  std::vector<TaskId> BrokenWith(TaskId task) const;

 private:
  struct Reported {
    std::set<TaskId> by;  // one end, or both
    absl::Time since;     // heard all the time
  };

  const absl::Duration settle_;
  std::map<TaskPair, Reported> reported_;
  // the broken ones of them, and those that Update has not taken away yet
  std::set<TaskPair> broken_;
};

// Returns the fewest of the members (the oldest first) without which no two of the others are a
// broken pair; of several such sets the one with the youngest member, then the next youngest. If
// more than kExactMax have to be left out, those in the most pairs go first.
inline constexpr size_t kExactMax = 10;
std::set<TaskId> FewestToLeaveOut(const std::vector<TaskId>& members,
                                  const std::set<TaskPair>& broken);

// The tasks that must do nothing because of broken pairs.
struct Apart {
  std::set<TaskId> idle;      // wait: nobody can do their work
  std::set<TaskId> left_out;  // members of a group, which goes on without them
  friend bool operator==(const Apart& a, const Apart& b) {
    return a.idle == b.idle && a.left_out == b.left_out;
  }
};
// Returns, for workers that move values from and to servers, those that do not reach all of them.
Apart PartFromServers(const std::vector<TaskId>& workers, const std::vector<TaskId>& servers,
                      const std::set<TaskPair>& broken);
// Parts a group of members that are in step, and others that may join it, each list the oldest
// first. If fewer than `min` members would be left, those in broken pairs wait.
Apart PartGroup(const std::vector<TaskId>& members, const std::vector<TaskId>& others, size_t min,
                const std::set<TaskPair>& broken);

}  // namespace cohort
