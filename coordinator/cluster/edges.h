#pragma once

// Pairs of tasks that do not reach each other. The coordinator itself sees only its own connection
// to each task. So each task reports the peers that it does not reach, and a reported pair goes
// through these states:
//
//   reported --the coordinator has heard both ends all the time, for a while--> broken
//   reported, broken --no task reports the pair any more--> gone
//
// If the coordinator does not hear an end of the pair either, the pair is not at fault: that task
// is away or lost, and whoever watches the task will find out.
//
// The choice of members that a group leaves out because of broken pairs is a pure function: the
// fewest members, and among equally small sets the set with the youngest members.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// A pair of tasks, the lesser task first.
using TaskPair = std::pair<TaskId, TaskId>;
TaskPair PairOf(TaskId one, TaskId other);

// The reported and the broken pairs of tasks. Thread-compatible.
class Edges {
 public:
  // Makes an empty set of pairs. A pair is broken when it has been reported for `settle`.
  explicit Edges(absl::Duration settle) : settle_(settle) {}

  // Replaces the report of the task `from` with all peers that it does not reach now.
  void Report(TaskId from, const std::set<TaskId>& unreached, absl::Time now);
  // Forgets all reports of a task whose process is gone.
  void Forget(TaskId from);

  struct Change {
    TaskPair pair;
    bool broken = false;  // false: the pair has healed
  };
  // Returns the ends of the pairs that are reported but not broken yet. If there are any, Update
  // must be called again.
  std::set<TaskId> Waiting() const;
  // Moves pairs between their states. `heard` holds those tasks of Waiting() that the coordinator
  // hears. Returns the pairs that have broken or healed, in order.
  std::vector<Change> Update(absl::Time now, const std::set<TaskId>& heard);

  const std::set<TaskPair>& broken() const { return broken_; }
  // Returns the tasks that form a broken pair with `task`.
  std::vector<TaskId> BrokenWith(TaskId task) const;

 private:
  struct Reported {
    std::set<TaskId> by;  // the ends that report the pair: one or both
    absl::Time since;     // the pair has been reported, and both ends heard, since then
  };

  const absl::Duration settle_;
  std::map<TaskPair, Reported> reported_;
  // The broken pairs of `reported_`, and healed pairs that Update has not removed yet.
  std::set<TaskPair> broken_;
};

// Returns the smallest set of members without which the rest contains no broken pair. `members` are
// sorted by age, the oldest first. Of several smallest sets, returns the set with the youngest
// member, then with the next youngest, and so on. If more than kExactMax members have to be left
// out, the members in the most broken pairs are left out first.
inline constexpr size_t kExactMax = 10;
std::set<TaskId> FewestToLeaveOut(const std::vector<TaskId>& members,
                                  const std::set<TaskPair>& broken);

// The tasks that must stand idle because of broken pairs.
struct Apart {
  std::set<TaskId> idle;      // tasks that wait, because no other task can do their work
  std::set<TaskId> left_out;  // members that their group leaves out while it goes on
  friend bool operator==(const Apart& a, const Apart& b) {
    return a.idle == b.idle && a.left_out == b.left_out;
  }
};
// Returns as idle the workers that do not reach all servers, for workers that exchange values with
// servers.
Apart PartFromServers(const std::vector<TaskId>& workers, const std::vector<TaskId>& servers,
                      const std::set<TaskPair>& broken);
// Chooses the workers that a group goes on without. `members` are in step, `others` may join the
// group; each list is sorted by age, the oldest first. If fewer than `min` members would be left,
// no member is left out, and the members in broken pairs wait.
Apart PartGroup(const std::vector<TaskId>& members, const std::vector<TaskId>& others, size_t min,
                const std::set<TaskPair>& broken);

}  // namespace cohort
