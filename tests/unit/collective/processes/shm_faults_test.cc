// Ranks that are processes and die at a chosen step of a chosen barrier, which is what ranks that
// share memory send each other: every other rank ends, with one cause, and a group of the same
// processes with another in the dead one's place works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/unit/collective/processes/told_rank.h"
#include "worker/collective/shm_communicator.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int kBarriersMax = 16;
constexpr int kCalls = kBarriersMax + 2;  // each takes a barrier at least
// The first go through slots; the others are read where they lie, or come in pieces.
constexpr int64_t kFew = 1001;
constexpr int64_t kMany = 60'013;

// Parts differ, and one is empty.
int64_t PartOf(int64_t count, int size, int rank) { return count / size * 2 * rank / size; }

Work WorkOf(CollectiveOp op, int size, int64_t count) {
  CollectiveCall call;
  call.op = op;
  call.name = absl::StrCat(OpName(op), " of ", count);
  call.root = size - 1;
  if (op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
      op == CollectiveOp::kBroadcast) {
    call.count = count;
  }
  if (op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather) {
    for (int rank = 0; rank < size; ++rank) call.counts.push_back(PartOf(count, size, rank));
  }
  auto calls = CallsOf(size, call);
  for (int from = 0; op == CollectiveOp::kAllToAll && from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      const int64_t part = PartOf(count, 2 * size, from + to);
      calls[static_cast<size_t>(from)].counts.push_back(part);
      calls[static_cast<size_t>(to)].receive_counts.push_back(part);
    }
  }
  return MakeWork(std::move(calls));
}

std::vector<Work> AllWorks(int size) {
  std::vector<Work> works;
  works.push_back(WorkOf(CollectiveOp::kBarrier, size, 0));
  works.push_back(WorkOf(CollectiveOp::kAllToAll, size, kMany));  // never through slots
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllGather,
        CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
    works.push_back(WorkOf(op, size, kFew));
    works.push_back(WorkOf(op, size, kMany));
  }
  return works;
}

// Processes that form one group after the other. Belongs to the thread of the test.
class Group {
 public:
  Group(int size, const std::vector<Work>& works) : works_(works) {
    for (int rank = 0; rank < size; ++rank) Replace(rank);
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  ToldRank& Of(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  uint64_t generation() const { return generation_; }

  // Another process takes the place of one that has died.
  void Replace(int rank) {
    ranks_.resize(std::max(ranks_.size(), static_cast<size_t>(rank) + 1));
    ranks_[static_cast<size_t>(rank)] = std::make_unique<ToldRank>(works_);
  }

  void TellToJoin() {
    const std::string socket = NewShmSocket();
    RankOrder order;
    order.what = RankOrder::What::kJoin;
    order.size = size();
    order.generation = ++generation_;
    ASSERT_LT(socket.size(), sizeof(order.socket));
    std::copy(socket.begin(), socket.end(), order.socket);
    for (; order.rank < size(); ++order.rank) Of(order.rank).Tell(order);
  }
  void ExpectJoined() {
    for (const auto& rank : ranks_) {
      const RankReport report = rank->Hear();
      ASSERT_EQ(report.kind, RankReport::Kind::kJoined);
      ASSERT_EQ(report.code, 0) << report.message;
    }
  }
  void TellAll(const RankOrder& order) {
    for (const auto& rank : ranks_) rank->Tell(order);
  }
  // All calls of the order were right. Returns how many barriers they took.
  int ExpectComplete() {
    std::set<int> barriers;
    for (const auto& rank : ranks_) {
      const RankReport report = rank->Hear();
      EXPECT_EQ(report.kind, RankReport::Kind::kEnded);
      EXPECT_EQ(report.code, 0) << report.message;
      barriers.insert(report.barriers);
    }
    EXPECT_EQ(barriers.size(), 1u);
    return *barriers.begin();
  }

  // Of the calls of the order these ranks have done just `complete`, and ended with one cause,
  // which is that `lost` was lost. Returns it.
  std::string ExpectLost(const std::vector<int>& ranks, int lost, int complete) {
    std::set<std::string> causes;
    for (const int rank : ranks) {
      const RankReport report = Of(rank).Hear();
      EXPECT_EQ(report.kind, RankReport::Kind::kEnded);
      EXPECT_EQ(report.complete, complete) << "rank " << rank;
      EXPECT_EQ(report.code, static_cast<int>(absl::StatusCode::kUnavailable)) << report.message;
      causes.insert(report.message);
    }
    EXPECT_EQ(causes.size(), 1u) << testing::PrintToString(causes);
    EXPECT_THAT(*causes.begin(),
                HasSubstr(absl::StrCat("group 'workers' of generation ", generation_,
                                       " was aborted: rank ", lost, " (worker:", 10 + lost,
                                       ") was lost: its process ended")));
    return *causes.begin();
  }

  std::vector<int> AllBut(const std::set<int>& ranks) const {
    std::vector<int> others;
    for (int rank = 0; rank < size(); ++rank) {
      if (ranks.count(rank) == 0) others.push_back(rank);
    }
    return others;
  }

 private:
  const std::vector<Work>& works_;
  std::vector<std::unique_ptr<ToldRank>> ranks_;
  uint64_t generation_ = 0;
};

constexpr BarrierStep kDeadlySteps[] = {BarrierStep::kReaches, BarrierStep::kArrived,
                                        BarrierStep::kPassed};

const char* NameOf(BarrierStep step) {
  switch (step) {
    case BarrierStep::kReaches: return "reaching";
    case BarrierStep::kArrived: return "having arrived at";
    case BarrierStep::kSleeps: return "falling asleep at";
    case BarrierStep::kPassed: return "having passed";
  }
  return "?";
}

// In one group.
struct Death {
  int killed = 0;
  BarrierStep step = BarrierStep::kReaches;
  int barrier = 0;

  int BarriersPassed() const { return barrier + (step == BarrierStep::kReaches ? 0 : 1); }
  RankOrder OrderOf(int rank, RankOrder order) const {
    order.then = rank == killed ? RankOrder::Then::kDie : RankOrder::Then::kNothing;
    order.step = step;
    order.barrier = barrier;
    return order;
  }
};

// One death in each group, side by side: they mostly wait. The groups are formed of those who were
// left of the ones before, and do one call before they begin.
void DieOnce(std::vector<Group>& groups, const std::vector<Death>& deaths, int work) {
  for (Group& group : groups) group.TellToJoin();
  for (Group& group : groups) group.ExpectJoined();
  RankOrder order;
  order.first_work = work;
  for (Group& group : groups) group.TellAll(order);
  int barriers = 0;  // of a call
  for (Group& group : groups) barriers = group.ExpectComplete();
  if (testing::Test::HasFailure()) return;
  order.calls = kCalls;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (int rank = 0; rank < groups[i].size(); ++rank) {
      groups[i].Of(rank).Tell(deaths[i].OrderOf(rank, order));
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const int killed = deaths[i].killed;
    SCOPED_TRACE(absl::StrCat("rank ", killed, " of ", groups[i].size(), " dies ",
                              NameOf(deaths[i].step), " barrier ", deaths[i].barrier, ", of ",
                              barriers, " a call"));
    groups[i].ExpectLost(groups[i].AllBut({killed}), killed, deaths[i].BarriersPassed() / barriers);
    groups[i].Of(killed).ExpectDeath();
    if (testing::Test::HasFailure()) return;
    groups[i].Replace(killed);
  }
}

// `deaths` groups of so many ranks, which die at each work in another way.
void DieAtAllWorks(int size, std::vector<Death> deaths, int killed_turn) {
  const std::vector<Work> works = AllWorks(size);
  std::vector<Group> groups;
  for (size_t i = 0; i < deaths.size(); ++i) groups.emplace_back(size, works);
  for (size_t work = 0; work < works.size(); ++work) {
    for (Death& death : deaths) {
      death.killed = (death.killed + killed_turn) % size;
      death.step = kDeadlySteps[(work + static_cast<size_t>(death.barrier)) % 3];
    }
    SCOPED_TRACE(DescribeCall(works[work].calls[0]));
    DieOnce(groups, deaths, static_cast<int>(work));
    if (testing::Test::HasFailure()) return;
  }
}

// What one has passed all pass, and nobody passes what one has not reached: so the calls that the
// others have done are the same on all of them, and known.
TEST(ShmFaults, RankKilledAfterSomeBarriers) {
  for (const int size : {2, 3, 4}) {
    std::vector<Death> deaths;
    for (int killed = 0; killed < size; ++killed) {
      for (int i = 0; i <= kBarriersMax; ++i) deaths.push_back({killed, {}, i});
    }
    DieAtAllWorks(size, std::move(deaths), 0);
    if (HasFailure()) return;
  }
}

TEST(ShmFaults, OneOfManyRanksKilledAfterSomeBarriers) {
  std::vector<Death> deaths;
  for (int i = 0; i <= kBarriersMax; ++i) deaths.push_back({i % 8, {}, i});
  DieAtAllWorks(8, std::move(deaths), 3);
}

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
  void Begin(Group& group, const Buckets& buckets) const {
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

  void End(Group& group, const Buckets& buckets) const {
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
  std::vector<Group> groups;
  for (size_t i = 0; i < deaths_at_once; ++i) groups.emplace_back(kSize, works);
  for (const BarrierStep step :
       {BarrierStep::kArrived, BarrierStep::kSleeps, BarrierStep::kPassed}) {
    const std::vector<DeathBetween> deaths = AllDeathsBetween(kSize, step);
    for (Buckets buckets : {Buckets{0}, Buckets{1}}) {
      for (Group& group : groups) group.TellToJoin();
      for (Group& group : groups) group.ExpectJoined();
      for (Group& group : groups) group.TellAll(buckets.Order());
      for (Group& group : groups) buckets.barriers = group.ExpectComplete();
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
