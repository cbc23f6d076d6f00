#include "coordinator/cluster/edges.h"

#include <algorithm>
#include <optional>

namespace cohort {

namespace {

// A set of members of a group, as positions in the list of members. The list is sorted by age,
// oldest first.
using Positions = std::set<size_t>;
using Pairs = std::vector<std::pair<size_t, size_t>>;

// Returns whether `one` has younger members than `other`, a set of the same size. Of two such sets,
// the younger one is left out of the group.
bool IsYounger(const Positions& one, const Positions& other) {
  return std::lexicographical_compare(other.rbegin(), other.rend(), one.rbegin(), one.rend());
}

// Finds a smallest set of at most `size_max` members that contains a task of every pair. Takes the
// first pair of which no task is chosen, and tries to choose either task. Visits at most 2^size_max
// branches.
void Search(const Pairs& pairs, size_t size_max, Positions& chosen,
            std::optional<Positions>& best) {
  const auto open = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return chosen.count(pair.first) == 0 && chosen.count(pair.second) == 0;
  });
  if (open == pairs.end()) {
    const bool better = !best.has_value() || chosen.size() < best->size() ||
                        (chosen.size() == best->size() && IsYounger(chosen, *best));
    if (better) best = chosen;
    return;
  }
  if (chosen.size() == size_max) return;
  for (const size_t end : {open->first, open->second}) {
    chosen.insert(end);
    Search(pairs, size_max, chosen, best);
    chosen.erase(end);
  }
}

// Chooses tasks greedily until every pair contains a chosen one: each time the task that is in most
// pairs. Used if the exact search would take too long.
Positions MostBrokenFirst(Pairs pairs) {
  Positions chosen;
  while (!pairs.empty()) {
    std::map<size_t, size_t> counts;
    for (const auto& [one, other] : pairs) {
      ++counts[one];
      ++counts[other];
    }
    // If several members are in equally many pairs, the youngest is taken, which has the highest
    // position.
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second, a.first) < std::pair(b.second, b.first);
        });
    const size_t worst = most->first;
    chosen.insert(worst);
    pairs.erase(std::remove_if(
                    pairs.begin(), pairs.end(),
                    [&](const auto& pair) { return pair.first == worst || pair.second == worst; }),
                pairs.end());
  }
  return chosen;
}

// Returns whether the task forms a broken pair with any of `others`.
bool IsBrokenWithAny(TaskId task, const std::vector<TaskId>& others,
                     const std::set<TaskPair>& broken) {
  return std::any_of(others.begin(), others.end(),
                     [&](TaskId other) { return broken.count(PairOf(task, other)) > 0; });
}

}  // namespace

TaskPair PairOf(TaskId one, TaskId other) {
  return one < other ? TaskPair(one, other) : TaskPair(other, one);
}

void Edges::Report(TaskId from, const std::set<TaskId>& unreached, absl::Time now) {
  for (auto& [pair, reported] : reported_) {
    const TaskId other = pair.first == from ? pair.second : pair.first;
    // A report lists all peers that its sender does not reach. Pairs that it does not list are no
    // longer reported by this sender.
    if (unreached.count(other) == 0) reported.by.erase(from);
  }
  for (const TaskId to : unreached) {
    if (to == from) continue;
    Reported& reported = reported_[PairOf(from, to)];
    // If the pair is reported already, the report does not restart the time for which it is
    // reported.
    if (reported.by.empty()) reported.since = now;
    reported.by.insert(from);
  }
}

void Edges::Forget(TaskId from) {
  for (auto& [pair, reported] : reported_) reported.by.erase(from);
}

std::vector<Edges::Change> Edges::Update(absl::Time now, const std::set<TaskId>& heard) {
  std::vector<Change> changes;
  for (auto it = reported_.begin(); it != reported_.end();) {
    const TaskPair pair = it->first;
    Reported& reported = it->second;
    if (reported.by.empty()) {
      if (broken_.erase(pair) > 0) changes.push_back({pair, false});
      it = reported_.erase(it);
      continue;
    }
    ++it;
    if (broken_.count(pair) > 0) continue;
    // If the coordinator does not hear one of the two tasks, that task may be lost, and the
    // connection between the two may work. So the time for which the pair is reported begins anew.
    if (heard.count(pair.first) == 0 || heard.count(pair.second) == 0) {
      reported.since = now;
    } else if (now - reported.since >= settle_) {
      broken_.insert(pair);
      changes.push_back({pair, true});
    }
  }
  return changes;
}

std::set<TaskId> Edges::Waiting() const {
  std::set<TaskId> ends;
  for (const auto& [pair, reported] : reported_) {
    if (reported.by.empty() || broken_.count(pair) > 0) continue;
    ends.insert(pair.first);
    ends.insert(pair.second);
  }
  return ends;
}

std::vector<TaskId> Edges::BrokenWith(TaskId task) const {
  std::vector<TaskId> others;
  for (const auto& [one, other] : broken_) {
    if (one == task) others.push_back(other);
    if (other == task) others.push_back(one);
  }
  return others;
}

std::set<TaskId> FewestToLeaveOut(const std::vector<TaskId>& members,
                                  const std::set<TaskPair>& broken) {
  Pairs pairs;
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t j = i + 1; j < members.size(); ++j) {
      if (broken.count(PairOf(members[i], members[j])) > 0) pairs.emplace_back(i, j);
    }
  }
  std::optional<Positions> best;
  // Sizes are tried in ascending order, so the first set that is found is a smallest one.
  for (size_t size = 0; size <= kExactMax && !best.has_value(); ++size) {
    Positions chosen;
    Search(pairs, size, chosen, best);
  }
  if (!best.has_value()) best = MostBrokenFirst(pairs);
  std::set<TaskId> left_out;
  for (const size_t position : *best) left_out.insert(members[position]);
  return left_out;
}

Apart PartFromServers(const std::vector<TaskId>& workers, const std::vector<TaskId>& servers,
                      const std::set<TaskPair>& broken) {
  Apart apart;
  for (const TaskId worker : workers) {
    if (IsBrokenWithAny(worker, servers, broken)) apart.idle.insert(worker);
  }
  return apart;
}

Apart PartGroup(const std::vector<TaskId>& members, const std::vector<TaskId>& others, size_t min,
                const std::set<TaskPair>& broken) {
  Apart apart;
  apart.left_out = FewestToLeaveOut(members, broken);
  // If too few members would remain, no member is left out. Instead, members in broken pairs get no
  // closures until the pairs heal.
  if (members.size() - apart.left_out.size() < std::max<size_t>(min, 1)) {
    apart.left_out.clear();
    for (const TaskId member : members) {
      if (IsBrokenWithAny(member, members, broken)) apart.idle.insert(member);
    }
  }
  std::vector<TaskId> group;
  for (const TaskId member : members) {
    if (apart.left_out.count(member) == 0) group.push_back(member);
  }
  for (const TaskId other : others) {
    // A worker that is not in step may join only if it reaches all members that remain, and all
    // workers that may join before it.
    if (IsBrokenWithAny(other, group, broken)) {
      apart.left_out.insert(other);
    } else {
      group.push_back(other);
    }
  }
  return apart;
}

}  // namespace cohort
