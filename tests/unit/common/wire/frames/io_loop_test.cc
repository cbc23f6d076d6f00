#include "common/wire/frames/io_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <vector>

namespace cohort {
namespace {

// How many of `waits` waits are let in when each ends as `found` says.
int Spins(SpinGate& gate, int waits, bool found) {
  int spins = 0;
  for (int i = 0; i < waits; ++i) {
    if (!gate.Open()) continue;
    ++spins;
    gate.Spun(found);
  }
  return spins;
}

TEST(SpinGate, WhatDoesNotPayIsTriedRarely) {
  SpinGate gate;
  EXPECT_LE(Spins(gate, 6400, false), 100);
  EXPECT_GE(Spins(gate, 6400, false), 1);
}

TEST(SpinGate, WhatPaysStaysOnAndEndsSoonAfterItDoesNot) {
  SpinGate gate;
  EXPECT_GE(Spins(gate, 1000, true), 900);
  EXPECT_LE(Spins(gate, 1000, false), 30);
}

TEST(SpinGate, EveryOtherEventIsEnoughAndEveryThirdIsNot) {
  SpinGate gate;
  Spins(gate, 1000, true);
  int spins = 0;
  for (int i = 0; i < 3000; ++i) {
    if (!gate.Open()) continue;
    ++spins;
    gate.Spun(i % 3 == 0);
  }
  EXPECT_LE(spins, 300);
}

size_t OpenFiles() {
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

class AlarmTest : public testing::Test {
 protected:
  void TearDown() override {
    std::promise<void> ended;  // what was due has run
    loop_.Post([&] { ended.set_value(); });
    ended.get_future().wait();
  }
  IoLoop::Time Now() const { return std::chrono::steady_clock::now(); }

  IoLoop loop_{Turns::kShort};
};

TEST_F(AlarmTest, RunInTheOrderOfTheirTimes) {
  std::vector<int> order;
  std::promise<void> last;
  const IoLoop::Time first = Now() + std::chrono::milliseconds(2);
  loop_.RunAt(first + std::chrono::microseconds(2), [&] {
    order.push_back(3);
    last.set_value();
  });
  loop_.RunAt(first, [&] { order.push_back(1); });
  loop_.RunAt(first + std::chrono::microseconds(1), [&] { order.push_back(2); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(AlarmTest, OneThatIsCancelledDoesNotRun) {
  std::atomic<int> runs{0};
  std::promise<void> last;
  const IoLoop::Time time = Now() + std::chrono::milliseconds(1);
  loop_.CancelRun(loop_.RunAt(time, [&] { ++runs; }));
  loop_.RunAt(time + std::chrono::milliseconds(1), [&] { last.set_value(); });
  last.get_future().wait();
  EXPECT_EQ(runs, 0);
  loop_.CancelRun(12345);
}

// Every connection has one: a program that is short of files must still be able to say so.
TEST_F(AlarmTest, TakeNoFile) {
  const size_t before = OpenFiles();
  std::vector<std::shared_ptr<LoopTimer>> timers;
  for (int i = 0; i < 100; ++i) {
    timers.push_back(LoopTimer::Make(loop_, [] {}));
    timers.back()->FireBy(Now() + std::chrono::hours(1));
  }
  EXPECT_EQ(OpenFiles(), before);
  for (const auto& timer : timers) timer->Stop();
}

TEST_F(AlarmTest, ATimerFiresAtTheEarliestOfItsTimesAndAgainWhenItIsToldSo) {
  std::atomic<int> fired{0};
  std::promise<void> first;
  std::promise<void> second;
  const auto timer = LoopTimer::Make(loop_, [&] { (++fired == 1 ? first : second).set_value(); });
  timer->FireBy(Now() + std::chrono::hours(1));
  timer->FireBy(Now() + std::chrono::milliseconds(1));
  timer->FireBy(Now() + std::chrono::hours(2));
  first.get_future().wait();
  timer->FireBy(Now() + std::chrono::milliseconds(1));
  second.get_future().wait();
  timer->Stop();
  timer->FireBy(Now());
  EXPECT_EQ(fired, 2);
}

}  // namespace
}  // namespace cohort
