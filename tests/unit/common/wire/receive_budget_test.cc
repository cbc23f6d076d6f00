// The conformance suite of transport.h: a service whose requests have a budget of bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLarge = 5 * kMiB;

// Handlers that keep their calls open, and count what they hold.
class ReceiveBudgetTest : public TransportTest {
 protected:
  void SetUpServer(size_t budget) {
    receive_budget_ = std::make_shared<ByteBudget>(budget);
    server_ = Listen({{"Push",
                       [this](Message request, Reply reply) {
                         MutexLock lock(mutex_);
                         in_hand_ += PayloadBytes(request.payload);
                         peak_ = std::max(peak_, in_hand_);
                         ++handled_;
                         kept_.push_back({std::move(request), std::move(reply)});
                       }},
                      {"Pull", Echo}});
  }

  void Start(Channel& channel, size_t bytes, absl::Duration timeout = kLong) {
    outcomes_.push_back(std::make_unique<Outcome>());
    calls_.push_back(channel.Start(kPush, Message{Header(1), {Bytes(bytes, calls_.size())}},
                                   timeout, outcomes_.back()->Completion()));
  }

  std::shared_ptr<Channel> Connect() {
    return world().transport().Connect(server_->address(), Lane::kData);
  }

  int handled() {
    MutexLock lock(mutex_);
    return handled_;
  }
  size_t peak() {
    MutexLock lock(mutex_);
    return peak_;
  }

  // Waits for an open call, and answers it.
  void AnswerOne() {
    ASSERT_TRUE(world().Until([&] {
      MutexLock lock(mutex_);
      return !kept_.empty();
    }));
    Kept kept;
    {
      MutexLock lock(mutex_);
      kept = std::move(kept_.front());
      kept_.pop_front();
      in_hand_ -= PayloadBytes(kept.request.payload);
    }
    kept.request = Message();
    kept.reply(Message{Header(2), {}});
  }

  // Room may come back a moment after the answer.
  bool AllRoomIsBack() {
    return world().Until([&] { return receive_budget_->stats().held == 0; });
  }

  struct Kept {
    Message request;
    Reply reply;
  };
  Mutex mutex_;
  std::deque<Kept> kept_;
  size_t in_hand_ = 0, peak_ = 0;
  int handled_ = 0;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::unique_ptr<Server> server_;
};

TEST_P(ReceiveBudgetTest, NoMoreIsReceivedThanThereIsRoomForAndEveryCallHasItsTurn) {
  SetUpServer(16 * kMiB);
  std::vector<std::shared_ptr<Channel>> channels;
  constexpr int kCalls = 20;
  for (int i = 0; i < 5; ++i) channels.push_back(Connect());
  for (size_t i = 0; i < kCalls; ++i) Start(*channels[i % channels.size()], kLarge);
  ASSERT_TRUE(world().Until([&] {
    return handled() == 3 && receive_budget_->stats().waiting == (kCalls - 3) * kLarge;
  })) << handled()
      << " " << receive_budget_->stats().waiting;
  for (int i = 0; i < kCalls; ++i) AnswerOne();
  for (const auto& outcome : outcomes_) EXPECT_TRUE(Await(*outcome).ok());
  EXPECT_EQ(handled(), kCalls);
  EXPECT_EQ(peak(), 3 * kLarge);
  EXPECT_EQ(receive_budget_->stats().held_max, 3 * kLarge);
  EXPECT_TRUE(AllRoomIsBack());
}

// Also on a connection on which nothing else is sent that would take it along.
TEST_P(ReceiveBudgetTest, WhoAsksIsHeardAtOnce) {
  SetUpServer(100 * kMiB);
  const auto channel = Connect();
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 2; ++i) Start(*channel, 15 * kMiB / 16, absl::Seconds(5));
    for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(AnswerOne());
    for (const auto& outcome : outcomes_) ASSERT_TRUE(Await(*outcome).ok()) << round;
    outcomes_.clear();
    calls_.clear();
  }
}

TEST_P(ReceiveBudgetTest, WhatIsLargerThanTheBudgetComesAlone) {
  SetUpServer(kMiB);
  const auto channel = Connect();
  for (int i = 0; i < 3; ++i) Start(*channel, kLarge);
  for (int i = 0; i < 3; ++i) AnswerOne();
  for (const auto& outcome : outcomes_) EXPECT_TRUE(Await(*outcome).ok());
  EXPECT_EQ(peak(), kLarge);
}

TEST_P(ReceiveBudgetTest, CallsThatEndWhileTheyWaitWereNeverSent) {
  SetUpServer(6 * kMiB);
  const auto channel = Connect();
  Start(*channel, kLarge);
  ASSERT_TRUE(world().Until([&] { return handled() == 1; }));
  Start(*channel, kLarge);
  ASSERT_TRUE(world().Until([&] { return receive_budget_->stats().waiting == kLarge; }));
  calls_[1]->Cancel();
  EXPECT_EQ(Await(*outcomes_[1]).status().code(), absl::StatusCode::kCancelled);
  Start(*channel, kLarge, absl::Milliseconds(50));
  EXPECT_EQ(Await(*outcomes_[2]).status().code(), absl::StatusCode::kDeadlineExceeded);
  Start(*channel, kLarge);
  AnswerOne();
  AnswerOne();
  EXPECT_TRUE(Await(*outcomes_[0]).ok());
  EXPECT_TRUE(Await(*outcomes_[3]).ok());
  EXPECT_EQ(handled(), 2);
  EXPECT_TRUE(AllRoomIsBack());
}

TEST_P(ReceiveBudgetTest, SmallCallsNeedNoRoom) {
  SetUpServer(6 * kMiB);
  const auto channel = Connect();
  Start(*channel, kLarge);
  Start(*channel, kLarge);
  ASSERT_TRUE(world().Until([&] { return receive_budget_->stats().waiting == kLarge; }));
  for (const size_t size : {size_t{0}, size_t{10}, kSmallRequestBytesMax}) {
    const auto answer = CallOnce(*channel, kPull, Message{Header(3), {Bytes(size, 1)}});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(PayloadBytes(answer->payload), size);
  }
  AnswerOne();
  AnswerOne();
  for (const auto& outcome : outcomes_) EXPECT_TRUE(Await(*outcome).ok());
}

TEST_P(ReceiveBudgetTest, AServerThatStopsEndsTheCallsThatWait) {
  SetUpServer(6 * kMiB);
  const auto channel = Connect();
  Start(*channel, kLarge);
  Start(*channel, kLarge);
  ASSERT_TRUE(
      world().Until([&] { return handled() == 1 && receive_budget_->stats().waiting == kLarge; }));
  server_.reset();
  for (const auto& outcome : outcomes_) {
    EXPECT_EQ(Await(*outcome).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(handled(), 1);
  kept_.clear();
}

INSTANTIATE_TEST_SUITE_P(All, ReceiveBudgetTest, testing::ValuesIn(TransportWorlds()), NameOfWorld);

// Transports on which bytes that nobody asked for take memory of the server.
std::vector<WorldFactory> SocketWorlds() {
  std::vector<WorldFactory> worlds = TransportWorlds();
  worlds.erase(std::remove_if(worlds.begin(), worlds.end(),
                              [](const WorldFactory& world) {
                                const std::string name = world.name;
                                return name != "Grpc" && name != "Unix" && name != "LocalUnix";
                              }),
               worlds.end());
  return worlds;
}

using UnaskedBytesTest = ReceiveBudgetTest;

TEST_P(UnaskedBytesTest, AClientSendsOneMiBUnaskedAndThenAsks) {
  SetUpServer(kMiB);
  const auto channel = Connect();
  constexpr int kCalls = 12;
  for (int i = 0; i < kCalls; ++i) Start(*channel, kMiB / 2);
  // Two come unasked, and one that asks is always let in; a second one where it is asked for before
  // the bytes that were not have come, since calls of their own may overtake each other.
  ASSERT_TRUE(world().Until([&] {
    const int in = handled();
    return in >= 3 && receive_budget_->stats().waiting == (kCalls - in) * kMiB / 2;
  })) << handled()
      << " " << receive_budget_->stats().waiting;
  EXPECT_LE(handled(), 4);
  for (int i = 0; i < kCalls; ++i) AnswerOne();
  for (const auto& outcome : outcomes_) EXPECT_TRUE(Await(*outcome).ok());
  EXPECT_LE(peak(), 2 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(All, UnaskedBytesTest, testing::ValuesIn(SocketWorlds()), NameOfWorld);

}  // namespace
}  // namespace cohort
