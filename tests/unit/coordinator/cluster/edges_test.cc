// Which pairs count as broken, and whom a group leaves out for them. Pure.

#include "coordinator/cluster/edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TaskId Worker(int index) { return {Role::kWorker, index}; }
TaskId Ps(int index) { return {Role::kPs, index}; }

constexpr absl::Duration kSettle = absl::Seconds(1);
const absl::Time kStart = absl::FromUnixSeconds(1000);

std::vector<TaskId> Workers(int count) {
  std::vector<TaskId> workers;
  for (int i = 0; i < count; ++i) workers.push_back(Worker(i));
  return workers;
}

TEST(Edges, APairIsBrokenWhenItWasReportedForAWhileAndBothEndsWereHeard) {
  Edges edges(kSettle);
  edges.Report(Worker(1), {Worker(2)}, kStart);
  EXPECT_THAT(edges.Waiting(), UnorderedElementsAre(Worker(1), Worker(2)));
  const std::set<TaskId> both = {Worker(1), Worker(2)};
  EXPECT_THAT(edges.Update(kStart, both), IsEmpty());
  // One end is not heard: the time begins again.
  EXPECT_THAT(edges.Update(kStart + kSettle / 2, {Worker(1)}), IsEmpty());
  EXPECT_THAT(edges.Update(kStart + kSettle, both), IsEmpty());
  // A report of others, too, is no new report of this pair.
  edges.Report(Worker(1), {Worker(2), Ps(0)}, kStart + kSettle);
  const auto changes = edges.Update(kStart + kSettle * 1.5, both);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].broken);
  EXPECT_EQ(changes[0].pair, PairOf(Worker(2), Worker(1)));
  EXPECT_THAT(edges.BrokenWith(Worker(2)), ElementsAre(Worker(1)));
  EXPECT_THAT(edges.Waiting(), UnorderedElementsAre(Worker(1), Ps(0)));
}

TEST(Edges, APairIsHealedWhenNeitherEndReportsIt) {
  Edges edges(absl::ZeroDuration());
  const std::set<TaskId> both = {Worker(1), Worker(2)};
  edges.Report(Worker(1), {Worker(2)}, kStart);
  edges.Report(Worker(2), {Worker(1)}, kStart);
  EXPECT_EQ(edges.Update(kStart, both).size(), 1u);
  edges.Report(Worker(1), {}, kStart);
  EXPECT_THAT(edges.Update(kStart, both), IsEmpty()) << "the other still says so";
  edges.Forget(Worker(2));  // its process is gone
  const auto changes = edges.Update(kStart, both);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].broken);
  EXPECT_THAT(edges.broken(), IsEmpty());
}

TEST(LeftOut, OfOnePairTheYoungerOne) {
  EXPECT_THAT(FewestToLeaveOut(Workers(3), {}), IsEmpty());
  EXPECT_THAT(FewestToLeaveOut(Workers(3), {PairOf(Worker(0), Worker(1))}), ElementsAre(Worker(1)));
  // By age, not by index.
  EXPECT_THAT(FewestToLeaveOut({Worker(2), Worker(1), Worker(0)}, {PairOf(Worker(0), Worker(1))}),
              ElementsAre(Worker(0)));
  // One that two others do not reach goes alone, however old.
  EXPECT_THAT(
      FewestToLeaveOut(Workers(4), {PairOf(Worker(0), Worker(1)), PairOf(Worker(0), Worker(3))}),
      ElementsAre(Worker(0)));
  // A pair with somebody who is no member concerns nobody.
  EXPECT_THAT(FewestToLeaveOut(Workers(2), {PairOf(Worker(0), Worker(5))}), IsEmpty());
}

TEST(LeftOut, RandomPairsAgreeWithAllSubsets) {
  SequenceRng rng(7);
  for (int run = 0; run < 300; ++run) {
    const int count = 2 + static_cast<int>(rng.Below(6));
    std::set<TaskPair> broken;
    for (uint64_t i = 0; i < rng.Below(8); ++i) {
      const auto one = static_cast<int>(rng.Below(static_cast<uint64_t>(count)));
      const auto other = static_cast<int>(rng.Below(static_cast<uint64_t>(count)));
      if (one != other) broken.insert(PairOf(Worker(one), Worker(other)));
    }
    // A subset is a number whose bits are members: of as many bits the larger has younger ones.
    unsigned best = ~0u;
    for (unsigned subset = 0; subset < 1u << count; ++subset) {
      const bool covers = std::all_of(broken.begin(), broken.end(), [&](const TaskPair& pair) {
        return ((subset >> pair.first.index | subset >> pair.second.index) & 1) != 0;
      });
      if (!covers) continue;
      const int bits = __builtin_popcount(subset);
      if (bits < __builtin_popcount(best) || (bits == __builtin_popcount(best) && subset > best)) {
        best = subset;
      }
    }
    std::set<TaskId> wanted;
    for (int i = 0; i < count; ++i) {
      if ((best >> i & 1) != 0) wanted.insert(Worker(i));
    }
    EXPECT_EQ(FewestToLeaveOut(Workers(count), broken), wanted) << "run " << run;
  }
}

TEST(LeftOut, OfVeryManyNobodyStaysInABrokenPair) {
  std::set<TaskPair> broken;
  for (int i = 0; i < 20; ++i) broken.insert(PairOf(Worker(i), Worker(39 - i)));
  const std::set<TaskId> left_out = FewestToLeaveOut(Workers(40), broken);
  EXPECT_EQ(left_out.size(), 20u);
  EXPECT_EQ(left_out.begin()->index, 20);
}

TEST(Apart, WorkersThatDoNotReachEveryServerAreIdle) {
  const std::set<TaskPair> broken = {PairOf(Worker(1), Ps(0)), PairOf(Worker(0), Worker(2))};
  EXPECT_EQ(PartFromServers(Workers(3), {Ps(0), Ps(1)}, broken), (Apart{{Worker(1)}, {}}));
}

TEST(Apart, AGroupThatWouldBeTooSmallWaits) {
  const std::set<TaskPair> broken = {PairOf(Worker(0), Worker(1))};
  EXPECT_EQ(PartGroup(Workers(2), {}, 1, broken), (Apart{{}, {Worker(1)}}));
  EXPECT_EQ(PartGroup(Workers(2), {}, 2, broken), (Apart{{Worker(0), Worker(1)}, {}}));
  EXPECT_EQ(PartGroup(Workers(3), {}, 2, broken), (Apart{{}, {Worker(1)}}));
}

// Members have the values; who joins adapts, one after another.
TEST(Apart, OthersJoinThatReachTheWholeGroup) {
  const std::set<TaskPair> broken = {PairOf(Worker(0), Worker(2)), PairOf(Worker(1), Worker(3)),
                                     PairOf(Worker(3), Worker(4))};
  EXPECT_EQ(PartGroup({Worker(0)}, {Worker(1), Worker(2), Worker(3), Worker(4)}, 1, broken),
            (Apart{{}, {Worker(2), Worker(3)}}));
}

}  // namespace
}  // namespace cohort
