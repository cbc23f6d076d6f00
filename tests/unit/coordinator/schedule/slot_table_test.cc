#include "coordinator/schedule/slot_table.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace cohort {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();
constexpr int kSlots = 2;

bool Any(int) { return true; }

proto::TaskRef Process(int worker, uint64_t incarnation) {
  proto::TaskRef task;
  task.set_role("worker");
  task.set_index(worker);
  task.set_incarnation(incarnation);
  return task;
}

class SlotTableTest : public testing::Test {
 protected:
  void Attach(int worker, uint64_t incarnation = 1) {
    ASSERT_TRUE(slots_.Attach(worker, Process(worker, incarnation), "host:1", nullptr));
  }
  // Takes slots until none is free, and returns the workers in the order in which they were chosen.
  std::vector<int> TakeAll() {
    std::vector<int> taken;
    for (int worker = slots_.Choose(kNow, Any); worker >= 0; worker = slots_.Choose(kNow, Any)) {
      members_.push_back(slots_.Take(worker));
      taken.push_back(worker);
    }
    return taken;
  }

  SlotTable slots_{kSlots};
  std::vector<GangMember> members_;
};

TEST_F(SlotTableTest, NobodyIsChosenWhereNobodyIs) { EXPECT_EQ(slots_.Choose(kNow, Any), -1); }

TEST_F(SlotTableTest, WorkersWithEqualRoomTakeTurns) {
  for (const int worker : {0, 1, 2}) Attach(worker);
  EXPECT_EQ(TakeAll(), (std::vector<int>{0, 1, 2, 0, 1, 2}));
  slots_.Return(members_);
  members_.clear();
  EXPECT_EQ(TakeAll(), (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST_F(SlotTableTest, TheWorkerWithTheMostRoomIsChosen) {
  for (const int worker : {0, 1}) Attach(worker);
  slots_.Take(0);
  EXPECT_EQ(slots_.Choose(kNow, Any), 1);
  slots_.Take(1);
  slots_.Take(1);
  EXPECT_EQ(slots_.Choose(kNow, Any), 0);
  EXPECT_EQ(slots_.Choose(kNow, [](int worker) { return worker != 0; }), -1);
}

TEST_F(SlotTableTest, AWorkerThatIsHeldOrAwayTakesNothing) {
  for (const int worker : {0, 1}) Attach(worker);
  slots_.HoldUntil(0, kNow + absl::Seconds(1));
  EXPECT_FALSE(slots_.HasRoom(0, kNow));
  EXPECT_TRUE(slots_.AnotherServes(0, kNow));
  EXPECT_FALSE(slots_.AnotherServes(1, kNow));
  EXPECT_TRUE(slots_.HasRoom(0, kNow + absl::Seconds(1)));
  slots_.Detach(1);
  EXPECT_EQ(slots_.Choose(kNow, Any), -1);
}

TEST_F(SlotTableTest, SilenceInARowHoldsAWorkerForTwiceAsLongUntilItHasDoneAClosure) {
  Attach(0);
  const absl::Duration silent = absl::Seconds(5);
  EXPECT_EQ(slots_.Hold(0, kNow, silent), kNow + silent);
  EXPECT_FALSE(slots_.HasRoom(0, kNow));
  EXPECT_EQ(slots_.Hold(0, kNow, silent), kNow + 2 * silent);
  EXPECT_EQ(slots_.Hold(0, kNow, silent), kNow + 4 * silent);
  for (int i = 0; i < 10; ++i) slots_.Hold(0, kNow, silent);
  EXPECT_EQ(slots_.Hold(0, kNow, silent), kNow + kHoldMax);
  slots_.CountDone(0);
  EXPECT_EQ(slots_.Hold(0, kNow, silent), kNow + silent);
}

TEST_F(SlotTableTest, AnotherAttachmentIsAnotherSession) {
  Attach(0);
  const GangMember member = slots_.Take(0);
  EXPECT_TRUE(slots_.Serves(member));
  slots_.Detach(0);
  EXPECT_FALSE(slots_.Serves(member));
  Attach(0);
  EXPECT_FALSE(slots_.Serves(member));
  EXPECT_EQ(slots_.Find(0)->in_flight, 1);  // the run of before is still to be taken back
}

TEST_F(SlotTableTest, AnotherProcessHasNoneOfTheResources) {
  Attach(0);
  const GangMember first = slots_.Take(0);
  slots_.AddResource(first, "program 1");
  Attach(0);
  EXPECT_TRUE(slots_.HasResource(0, "program 1"));
  Attach(0, 2);
  EXPECT_FALSE(slots_.HasResource(0, "program 1"));
  slots_.AddResource(first, "program 1");  // an answer of the first process that comes late
  EXPECT_FALSE(slots_.HasResource(0, "program 1"));
  slots_.AddResource(slots_.Take(0), "program 1");
  slots_.ForgetResources(first);
  EXPECT_TRUE(slots_.HasResource(0, "program 1"));
}

TEST_F(SlotTableTest, AWorkerThatIsRemovedIsGoneWhenItRunsNothing) {
  Attach(0);
  const GangMember member = slots_.Take(0);
  slots_.CountDone(0);
  EXPECT_EQ(slots_.stats().at(0).done, 1u);
  bool drained = false;
  slots_.Remove(0, [&] { drained = true; });
  EXPECT_FALSE(slots_.HasRoom(0, kNow));
  EXPECT_FALSE(slots_.Attach(0, Process(0, 2), "host:1", nullptr));
  EXPECT_TRUE(slots_.TakeDrained().empty());
  slots_.Return({member});
  for (auto& callback : slots_.TakeDrained()) callback();
  EXPECT_TRUE(drained);
  EXPECT_EQ(slots_.Find(0), nullptr);
  EXPECT_EQ(slots_.known(), 0u);
  Attach(0, 2);
}

TEST_F(SlotTableTest, WhatIsTakenBackLeavesNobodyButWhoIsToBeTold) {
  for (const int worker : {0, 1}) Attach(worker);
  slots_.Take(0);
  slots_.Take(1);
  slots_.Remove(1, [] {});
  slots_.Clear();
  EXPECT_EQ(slots_.Find(0), nullptr);
  EXPECT_EQ(slots_.TakeDrained().size(), 1u);
  EXPECT_EQ(slots_.Find(1), nullptr);
  EXPECT_EQ(slots_.known(), 1u);  // worker 0 has served, and is awaited
}

}  // namespace
}  // namespace cohort
