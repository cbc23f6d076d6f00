// Ranks that are processes and die at a chosen step of a chosen barrier, which is what ranks that
// share memory send each other: every other rank ends, with one cause, and a group of the same
// processes with another in the dead one's place works.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/processes/told_group.h"

namespace cohort {
namespace {

constexpr int kBarriersMax = 16;
constexpr int kCalls = kBarriersMax + 2;  // each takes a barrier at least
constexpr BarrierStep kDeadlySteps[] = {BarrierStep::kReaches, BarrierStep::kArrived,
                                        BarrierStep::kPassed};

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
void DieOnce(std::vector<ToldGroup>& groups, const std::vector<Death>& deaths, int work) {
  for (ToldGroup& group : groups) group.TellToJoin();
  for (ToldGroup& group : groups) group.ExpectJoined();
  RankOrder order;
  order.first_work = work;
  for (ToldGroup& group : groups) group.TellAll(order);
  int barriers = 0;  // of a call
  for (ToldGroup& group : groups) barriers = group.ExpectComplete();
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
  std::vector<ToldGroup> groups;
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

// Before which of the messages with which it joins a rank dies: rank 0 sends each other rank the
// memory, a life for each rank and the word to go on; each other rank a greeting and a proof.
struct JoiningDeath {
  int killed = 0;
  int message = 0;
};

std::vector<JoiningDeath> AllJoiningDeaths(int size) {
  std::vector<JoiningDeath> deaths;
  for (int message = 0; message < (size - 1) * (size + 2); ++message) {
    deaths.push_back({0, message});
  }
  for (int killed = 1; killed < size; ++killed) {
    for (int message = 0; message < 2; ++message) deaths.push_back({killed, message});
  }
  return deaths;
}

// Whether a rank may be too late to hear of the death: rank 0 gives up when one dies before its
// greeting, and who has not reached it by then waits for a rank 0 until its time is over.
bool MayHearNothing(int rank, const JoiningDeath& death) {
  return rank != 0 && death.killed != 0 && death.message == 0;
}

// Everybody is told by the death itself that there is no group, or there is one without the dead.
void ExpectNoGroupWith(ToldGroup& group, const JoiningDeath& death) {
  const int killed = death.killed;
  std::vector<int> formed;
  for (const int rank : group.AllBut({killed})) {
    const RankReport report = group.Of(rank).Hear();
    EXPECT_EQ(report.kind, RankReport::Kind::kJoined);
    const auto code = static_cast<absl::StatusCode>(report.code);
    if (code == absl::StatusCode::kOk) {
      formed.push_back(rank);
    } else if (code != absl::StatusCode::kDeadlineExceeded || !MayHearNothing(rank, death)) {
      EXPECT_EQ(code, absl::StatusCode::kUnavailable) << "rank " << rank << ": " << report.message;
    }
  }
  for (const int rank : formed) group.Of(rank).Tell(RankOrder());
  if (!formed.empty()) group.ExpectLost(formed, killed, 0);
  group.Of(killed).ExpectDeath();
  group.Replace(killed);
}

TEST(ShmFaults, RankKilledWhileItJoins) {
  for (const int size : {2, 3, 4}) {
    const std::vector<Work> works = AllWorks(size);
    const std::vector<JoiningDeath> deaths = AllJoiningDeaths(size);
    std::vector<ToldGroup> groups;
    for (size_t i = 0; i < deaths.size(); ++i) groups.emplace_back(size, works);
    for (size_t i = 0; i < deaths.size(); ++i) {
      for (RankOrder& order : groups[i].OrdersToJoin()) {
        if (MayHearNothing(order.rank, deaths[i])) order.join_timeout_ms = 1000;
        if (order.rank == deaths[i].killed) order.dies_before_message = deaths[i].message;
        groups[i].Of(order.rank).Tell(order);
      }
    }
    for (size_t i = 0; i < deaths.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("rank ", deaths[i].killed, " of ", size, " dies before message ",
                                deaths[i].message));
      ExpectNoGroupWith(groups[i], deaths[i]);
      if (HasFailure()) return;
    }
    for (ToldGroup& group : groups) group.TellToJoin();
    for (ToldGroup& group : groups) group.ExpectJoined();
    for (ToldGroup& group : groups) group.TellAll(RankOrder());
    for (ToldGroup& group : groups) group.ExpectComplete();
  }
}

}  // namespace
}  // namespace cohort
