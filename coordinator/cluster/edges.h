#pragma once

// Pairs of tasks that do not reach each other. The coordinator itself sees only its own connection
// to each task. So each task reports the peers that it does not reach, and a reported pair goes
// through these states:
//
//   reported --the coordinator has heard both tasks all the time, for a while--> broken
//   reported, broken --no task reports the pair any more--> gone
//
// If the coordinator does not hear one of the two tasks either, the pair is not at fault: that task
// is lost or unreachable, which its TaskConnection will find out.
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
  // Makes an empty set of pairs. A pair counts as broken when it has been reported for the time
  // `settle`.
  explicit Edges(absl::Duration settle) : settle_(settle) {}

  // Records all peers that the task `from` does not reach now, in place of its earlier report.
  void Report(TaskId from, const std::set<TaskId>& unreached, absl::Time now);
  // Forgets all reports made by a task whose process has ended.
  void Forget(TaskId from);

  struct Change {
    TaskPair pair;
    bool broken = false;  // true: the pair has become broken; false: it has healed
  };
  // Returns the tasks of all pairs that are reported but not yet broken. While there are any,
  // Update must be called repeatedly.
  std::set<TaskId> Waiting() const;
  // Decides which pairs have become broken or have healed, and returns them in order. `heard` holds
  // the tasks of Waiting() that the coordinator hears.
  std::vector<Change> Update(absl::Time now, const std::set<TaskId>& heard);

  const std::set<TaskPair>& broken() const { return broken_; }
  // Returns the tasks that form a broken pair with `task`.
  std::vector<TaskId> BrokenWith(TaskId task) const;

 private:
  struct Reported {
    std::set<TaskId> by;  // the tasks of the pair that report it: one or both
    absl::Time since;     // since when it was reported and both tasks were heard
  };

  const absl::Duration settle_;
  std::map<TaskPair, Reported> reported_;
  // The broken pairs of `reported_`, and healed pairs that Update has yet to remove.
  std::set<TaskPair> broken_;
};

// Returns the smallest set of members that must be left out so that no broken pair remains.
// `members` are sorted by age, the oldest first. Of several smallest sets, returns the one with the
// youngest member, then with the next youngest, and so on. If more than kExactMax members have to
// be left out, chooses them greedily, the members in the most broken pairs first.
inline constexpr size_t kExactMax = 10;
std::set<TaskId> FewestToLeaveOut(const std::vector<TaskId>& members,
                                  const std::set<TaskPair>& broken);

// The tasks that must not work because of broken pairs.
struct Apart {
  std::set<TaskId> idle;      // workers that wait until their broken pairs heal
  std::set<TaskId> left_out;  // members that their group trains without
  friend bool operator==(const Apart& a, const Apart& b) {
    return a.idle == b.idle && a.left_out == b.left_out;
  }
};
// Chooses the idle workers if workers exchange values with servers: the workers that do not reach
// all servers.
Apart PartFromServers(const std::vector<TaskId>& workers, const std::vector<TaskId>& servers,
                      const std::set<TaskPair>& broken);
// Chooses the workers that a group trains without. `members` are in step (have a valid copy),
// `others` may join the group; each list is sorted by age, the oldest first. If fewer than `min`
// members would be left, no member is left out, and the members in broken pairs wait.
Apart PartGroup(const std::vector<TaskId>& members, const std::vector<TaskId>& others, size_t min,
                const std::set<TaskPair>& broken);

}  // namespace cohort
