#pragma once

// Pairs of tasks that do not reach each other. The coordinator itself sees only its own connection
// to each task. So each task reports the peers that it does not reach. A reported pair goes through
// these states:
//
//   reported --the coordinator has heard both tasks all the time, for a while--> broken
//   reported, broken --no task reports the pair any more--> gone
//
// While the coordinator does not hear one of the two tasks either, the pair does not become broken:
// that task is lost or cut off, which its TaskConnection will find out.
//
// If members of a group form broken pairs, the group leaves out some members, so that no broken
// pair remains. The choice is a pure function: as few members as possible, and of equally small
// sets the set with the youngest members.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// A pair of tasks; the lesser task comes first.
using TaskPair = std::pair<TaskId, TaskId>;
TaskPair PairOf(TaskId one, TaskId other);

// The pairs of tasks that are reported, and those of them that are broken. Thread-compatible.
class Edges {
 public:
  // Makes an empty set of pairs. A pair counts as broken once it has been reported for the time
  // `settle`, if the coordinator has heard both tasks all that time.
  explicit Edges(absl::Duration settle) : settle_(settle) {}

  // Records the peers that the task `from` does not reach now. The report replaces the task's
  // earlier report.
  void Report(TaskId from, const std::set<TaskId>& unreached, absl::Time now);
  // Forgets what the task `from` has reported. Called when the task's process has ended.
  void Forget(TaskId from);

  struct Change {
    TaskPair pair;
    bool broken = false;  // true if the pair is broken now, false if it has healed
  };
  // Returns the tasks of all pairs that are reported but not broken yet. While there are such
  // pairs, Update must be called again and again.
  std::set<TaskId> Waiting() const;
  // Decides which pairs of tasks have broken and which have healed, and returns these changes.
  // `heard` contains the tasks of Waiting() that still answer the coordinator's heartbeats: a pair
  // with a task that does not is no broken pair, but perhaps a lost task.
  std::vector<Change> Update(absl::Time now, const std::set<TaskId>& heard);

  const std::set<TaskPair>& broken() const { return broken_; }
  // Returns the tasks with which `task` forms a broken pair.
  std::vector<TaskId> BrokenWith(TaskId task) const;

 private:
  struct Reported {
    std::set<TaskId> by;  // those of the pair's two tasks that report the pair
    absl::Time since;     // since when the pair is reported while both tasks are heard
  };

  const absl::Duration settle_;
  std::map<TaskPair, Reported> reported_;
  // The broken pairs. May still contain healed pairs, which the next Update removes.
  std::set<TaskPair> broken_;
};

// Returns the smallest set of members that must be left out so that no broken pair remains.
// `members` are sorted by age, the oldest first. Of several smallest sets, returns the one with the
// youngest member; if they share it, the next youngest decides, and so on. If more than kExactMax
// members must be left out, chooses them greedily: each time the member in most broken pairs.
inline constexpr size_t kExactMax = 10;
std::set<TaskId> FewestToLeaveOut(const std::vector<TaskId>& members,
                                  const std::set<TaskPair>& broken);

// The tasks that must not work because they form broken pairs.
struct Apart {
  std::set<TaskId> idle;      // workers that get no closures until their broken pairs heal
  std::set<TaskId> left_out;  // members that their group leaves out
  friend bool operator==(const Apart& a, const Apart& b) {
    return a.idle == b.idle && a.left_out == b.left_out;
  }
};
// Returns which workers must be idle if the variables live on servers: those that do not reach all
// servers.
Apart PartFromServers(const std::vector<TaskId>& workers, const std::vector<TaskId>& servers,
                      const std::set<TaskPair>& broken);
// Returns which workers a group leaves out. `members` are in step (have a valid copy of the
// variables), and `others` may join the group; each list is sorted by age, the oldest first. If
// fewer than `min` members would remain, no member is left out, and the members in broken pairs are
// idle instead.
Apart PartGroup(const std::vector<TaskId>& members, const std::vector<TaskId>& others, size_t min,
                const std::set<TaskPair>& broken);

}  // namespace cohort
