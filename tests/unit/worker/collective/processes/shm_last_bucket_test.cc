// A rank that is a process dies when some have completed the last bucket of a step, through shared
// memory, and others have not.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/processes/told_group.h"

namespace cohort {
namespace {

// The buckets of a step: works from `first` on, which take so many barriers.
struct Buckets {
  static constexpr int kCount = 3;
  int first = 0;
  int barriers = 0;

  RankOrder Order() const {
    RankOrder order;
    order.first_work = first;
    order.works = order.calls = kCount;
    return order;
  }
  // Standing at this step of the last barrier of the last bucket.
  RankOrder OrderToStand(BarrierStep step) const {
    RankOrder order = Order();
    order.then = RankOrder::Then::kStand;
    order.step = step;
    order.barrier = barriers - 1;
    return order;
  }
  // The first bucket of the next step.
  RankOrder Next() const {
    RankOrder order = Order();
    order.calls = 1;
    return order;
  }
};

RankOrder GoOn() {
  RankOrder order;
  order.what = RankOrder::What::kGoOn;
  return order;
}

void ExpectStands(ToldRank& rank) { EXPECT_EQ(rank.Hear().kind, RankReport::Kind::kStands); }

void ExpectBuckets(ToldRank& rank) {
  const RankReport report = rank.Hear();
  EXPECT_EQ(report.kind, RankReport::Kind::kEnded);
  EXPECT_EQ(report.complete, Buckets::kCount) << report.message;
}

// Rank `killed` dies when `first` has completed the last bucket of a step, and `second` stands at
// `step` of that bucket's last barrier, which it has reached, as have all others.
struct DeathBetween {
  int first = 0;
  int second = 0;
  int killed = 0;
  BarrierStep step = BarrierStep::kArrived;

  // To where the others have begun the next step.
  void Begin(ToldGroup& group, const Buckets& buckets) const {
    // Who falls asleep waits for somebody.
    const bool sleeps = step == BarrierStep::kSleeps;
    group.Of(second).Tell(buckets.OrderToStand(step));
    for (const int rank : group.AllBut({second})) {
      const bool awaited = sleeps && rank == first;
      group.Of(rank).Tell(awaited ? buckets.OrderToStand(BarrierStep::kReaches) : buckets.Order());
    }
    if (sleeps) ExpectStands(group.Of(first));
    ExpectStands(group.Of(second));
    if (sleeps) group.Of(first).Tell(GoOn());
    for (const int rank : group.AllBut({second})) ExpectBuckets(group.Of(rank));
    group.Of(killed).Kill();
    for (const int rank : group.AllBut({second, killed})) group.Of(rank).Tell(buckets.Next());
  }

  void End(ToldGroup& group, const Buckets& buckets) const {
    const std::string cause = group.ExpectLost(group.AllBut({second, killed}), killed, 0);
    if (killed != second) {
      group.Of(second).Tell(GoOn());
      ExpectBuckets(group.Of(second));
      group.Of(second).Tell(buckets.Next());
      EXPECT_EQ(group.ExpectLost({second}, killed, 0), cause);
    }
    group.Replace(killed);
  }
};

std::vector<DeathBetween> AllDeathsBetween(int size, BarrierStep step) {
  std::vector<DeathBetween> deaths;
  for (int first = 0; first < size; ++first) {
    for (int turn = 1; turn < size; ++turn) {
      for (int killed = 0; killed < size; ++killed) {
        deaths.push_back({first, (first + turn) % size, killed, step});
      }
    }
  }
  return deaths;
}

// What one has completed all complete who live, also who sees only then that all had come, when
// the generation has ended: so all are at the same step, with the same bits.
TEST(ShmLastBucket, RankKilledBetweenItsCompletionOnTwoRanks) {
  constexpr int kSize = 4;
  std::vector<Work> works;
  for (const int64_t count : {kFew, kMany, kFew, kMany}) {
    works.push_back(WorkOf(CollectiveOp::kAllReduce, kSize, count));
  }
  const size_t deaths_at_once = AllDeathsBetween(kSize, BarrierStep::kArrived).size();
  std::vector<ToldGroup> groups;
  for (size_t i = 0; i < deaths_at_once; ++i) groups.emplace_back(kSize, works);
  for (const BarrierStep step :
       {BarrierStep::kArrived, BarrierStep::kSleeps, BarrierStep::kPassed}) {
    const std::vector<DeathBetween> deaths = AllDeathsBetween(kSize, step);
    for (Buckets buckets : {Buckets{0}, Buckets{1}}) {
      for (ToldGroup& group : groups) group.TellToJoin();
      for (ToldGroup& group : groups) group.ExpectJoined();
      for (ToldGroup& group : groups) group.TellAll(buckets.Order());
      for (ToldGroup& group : groups) buckets.barriers = group.ExpectComplete();
      for (size_t i = 0; i < groups.size() && !HasFailure(); ++i) {
        deaths[i].Begin(groups[i], buckets);
      }
      for (size_t i = 0; i < groups.size() && !HasFailure(); ++i) {
        SCOPED_TRACE(absl::StrCat("rank ", deaths[i].killed, " dies between ", deaths[i].first,
                                  " and ", deaths[i].second, ", which stands ", NameOf(step),
                                  " the last barrier"));
        deaths[i].End(groups[i], buckets);
      }
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cohort
