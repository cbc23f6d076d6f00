#include "common/wire/byte_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

using testing::ElementsAre;

class ByteBudgetTest : public testing::Test {
 protected:
  // The end of a room lets others in, so no room ends inside the map that takes theirs.
  ~ByteBudgetTest() override {
    while (!rooms_.empty()) Drop(rooms_.begin()->first);
  }

  // Notes who was let in, and keeps the room.
  void Ask(int who, size_t bytes) {
    budget_->Ask(bytes, [this, who](ByteBudget::Room room) {
      order_.push_back(who);
      rooms_[who] = std::move(room);
    });
  }

  // Others are let in, and kept, when it is no more among those that are kept.
  void Drop(int who) {
    const ByteBudget::Room room = std::move(rooms_.at(who));
    rooms_.erase(who);
  }

  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(100);
  std::vector<int> order_;
  std::map<int, ByteBudget::Room> rooms_;
};

TEST_F(ByteBudgetTest, WhatDoesNotFitWaitsUntilRoomComesBack) {
  Ask(1, 60);
  Ask(2, 40);
  Ask(3, 1);
  EXPECT_THAT(order_, ElementsAre(1, 2));
  EXPECT_EQ(budget_->stats().held, 100u);
  EXPECT_EQ(budget_->stats().waiting, 1u);
  Drop(2);
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
  EXPECT_EQ(budget_->stats().held, 61u);
  EXPECT_EQ(budget_->stats().held_max, 100u);
  EXPECT_EQ(budget_->stats().waiting, 0u);
  EXPECT_EQ(budget_->stats().waits, 1u);
}

TEST_F(ByteBudgetTest, SmallOnesDoNotPassALargeOneThatWaits) {
  Ask(1, 50);
  Ask(2, 90);
  Ask(3, 10);
  EXPECT_EQ(budget_->TryTake(10), nullptr);
  EXPECT_THAT(order_, ElementsAre(1));
  Drop(1);
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
}

TEST_F(ByteBudgetTest, WhatIsLargerThanTheWholeIsLetInAlone) {
  Ask(1, 1);
  Ask(2, 1000);
  Ask(3, 1);
  EXPECT_THAT(order_, ElementsAre(1));
  Drop(1);
  EXPECT_THAT(order_, ElementsAre(1, 2));
  Drop(2);
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
}

TEST_F(ByteBudgetTest, WhatCameUnaskedTakesRoomAndKeepsNobodyOutForEver) {
  const ByteBudget::Room unasked = budget_->Take(500);
  Ask(1, 10);
  Ask(2, 10);
  EXPECT_THAT(order_, ElementsAre(1)) << "one of those who ask is always let in";
  EXPECT_EQ(budget_->stats().held, 510u);
  Drop(1);
  EXPECT_THAT(order_, ElementsAre(1, 2));
}

TEST_F(ByteBudgetTest, WhoDropsTheRoomAtOnceLetsTheNextIn) {
  Ask(1, 100);
  for (int i = 0; i < 100000; ++i) budget_->Ask(100, [](ByteBudget::Room) {});
  Ask(2, 100);
  Drop(1);
  EXPECT_THAT(order_, ElementsAre(1, 2));
  EXPECT_EQ(budget_->stats().held, 100u);
}

TEST_F(ByteBudgetTest, RoomOutlivesTheOwner) {
  Ask(1, 10);
  budget_.reset();
  rooms_.clear();
}

// The model: a list of who waits in order, and what is held.
TEST_F(ByteBudgetTest, RandomUseAgreesWithAModel) {
  SequenceRng rng(20261122);
  struct Asked {
    int who;
    size_t bytes;
  };
  std::deque<Asked> waiting;
  std::map<int, size_t> held;  // asked for
  size_t total = 0;
  std::vector<int> expected;
  const auto let_in = [&] {
    while (!waiting.empty() && (held.empty() || total + waiting.front().bytes <= 100)) {
      held[waiting.front().who] = waiting.front().bytes;
      total += waiting.front().bytes;
      expected.push_back(waiting.front().who);
      waiting.pop_front();
    }
  };
  for (int step = 0; step < 20000; ++step) {
    if (rng.Below(2) == 0) {
      const size_t bytes = rng.Below(rng.Below(10) == 0 ? 200 : 60);
      waiting.push_back({step, bytes});
      let_in();
      Ask(step, bytes);
    } else if (!held.empty()) {
      const auto gone = std::next(held.begin(), static_cast<long>(rng.Below(held.size())));
      const int who = gone->first;
      total -= gone->second;
      held.erase(gone);
      let_in();
      Drop(who);
    }
    ASSERT_EQ(order_, expected) << "step " << step;
    ASSERT_EQ(budget_->stats().held, total);
    ASSERT_LE(total, 200u);
    ASSERT_TRUE(total <= 100 || held.size() == 1);
  }
  EXPECT_GT(order_.size(), 5000u);
}

TEST(ByteBudgetThreads, NeverHoldMoreThanTheBudgetAndAllGetTheirTurn) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  std::atomic<size_t> in_hand{0}, peak{0};
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = 1 + static_cast<size_t>(t * 100 + i % 100);
        budget->Ask(bytes, [&, bytes](ByteBudget::Room room) {
          const size_t now = in_hand += bytes;
          size_t seen = peak;
          while (now > seen && !peak.compare_exchange_weak(seen, now)) {
          }
          ++served;
          in_hand -= bytes;
          room.reset();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 8 * 2000);
  EXPECT_LE(peak, 1000u);
  EXPECT_EQ(budget->stats().held, 0u);
  EXPECT_EQ(budget->stats().waiting, 0u);
}

}  // namespace
}  // namespace cohort
