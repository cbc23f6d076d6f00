// Buckets start in one order, whoever has which summand first.

#include "worker/gang/group_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/base/event.h"
#include "common/base/thread_pool.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/worker/gang/held_communicator.h"

namespace cohort {
namespace {

TEST(GroupSum, BucketsStartInOneOrderWhicheverSummandIsReadyFirst) {
  SequenceRng rng(TestSeed(1));
  for (int turn = 0; turn < 200; ++turn) {
    TasksInTurn turns;
    Events events;
    HeldCommunicator::Calls calls;
    auto group =
        std::make_shared<GangGroup>(std::make_unique<HeldCommunicator>(events, calls), turns);
    std::vector<SummandType> summands;
    std::vector<size_t> order;
    for (size_t i = 0; i < 7; ++i) {
      const DType dtype = i % 3 == 0 ? DType::kInt64 : DType::kFloat32;
      summands.push_back({absl::StrCat("s", i), dtype, Shape{static_cast<int64_t>(i)}});
      order.insert(order.begin() + static_cast<int64_t>(rng.Next() % (i + 1)), i);
    }
    GroupCommunication communication;
    communication.bytes_per_pack = 8;
    const auto sum = GroupSum::Make(group, communication, summands);
    ASSERT_TRUE(sum.ok()) << sum.status();
    for (const size_t summand : order) {
      (*sum)->PlaceNeutral(summand);
      ASSERT_TRUE((*sum)->Ready(summand).ok());
    }
    EXPECT_EQ(events, Events({"start bucket 0 with s6", "start bucket 1 with s5",
                              "start bucket 2 with s4", "start bucket 3 with s3",
                              "start bucket 4 with s2", "start bucket 5 with s0"}))
        << testing::PrintToString(order);
    for (auto& held : calls.held) held.done(absl::OkStatus());
    turns.RunAll();
  }
}

// 20 gradients of 2 MiB: packs end behind 4 MiB, and behind 25 MiB where a call of NCCL waits for
// all ranks; the first one behind 1 MiB.
TEST(GroupSum, PacksAreLargerOverNccl) {
  for (const bool nccl : {false, true}) {
    TasksInTurn turns;
    Events events;
    HeldCommunicator::Calls calls;
    auto group =
        std::make_shared<GangGroup>(std::make_unique<HeldCommunicator>(events, calls), turns);
    GroupCommunication communication;
    communication.nccl = nccl;
    std::vector<SummandType> summands;
    for (int i = 0; i < 20; ++i) {
      summands.push_back({absl::StrCat("s", i), DType::kFloat32, Shape{1 << 19}});
    }
    const auto sum = GroupSum::Make(group, communication, summands);
    ASSERT_TRUE(sum.ok()) << sum.status();
    for (size_t i = 0; i < summands.size(); ++i) ASSERT_TRUE((*sum)->Ready(i).ok());
    EXPECT_EQ(events.size(), nccl ? 1 + 2 : 1 + 7);
    for (auto& held : calls.held) held.done(absl::OkStatus());
    turns.RunAll();
  }
}

// Where a call is told to be done, others wait behind it (communicator.h).
TEST(GroupSum, WhatTravelsRoundedIsWidenedElsewhere) {
  for (const DType travels_as : {DType::kFloat32, DType::kBfloat16}) {
    TasksInTurn turns;
    Events events;
    HeldCommunicator::Calls calls;
    GroupCommunication communication;
    communication.gradient_dtype = travels_as;
    bool given = false;
    SumOverGroup(
        std::make_shared<GangGroup>(std::make_unique<HeldCommunicator>(events, calls), turns),
        communication, {{"kernel", Tensor::Scalar(1.0f), false, true}},
        [&given](const auto& sums) { given = sums.ok(); });
    ASSERT_EQ(calls.held.size(), 1u);
    calls.held[0].done(absl::OkStatus());
    EXPECT_EQ(given, travels_as == DType::kFloat32);
    turns.RunAll();
    EXPECT_TRUE(given);
  }
}

// Tells the order in which calls are started, and ends them on a pool. Thread-safe.
class ToldCommunicator final : public Communicator {
 public:
  explicit ToldCommunicator(Executor& executor) : executor_(executor) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return Buffer::Allocate(bytes);
  }
  void Start(CollectiveCall call, Done done) override {
    {
      MutexLock lock(mutex_);
      started_.push_back(call.name);
    }
    executor_.Run([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }
  void Abort(absl::Status) override {}
  Events started() const {
    MutexLock lock(mutex_);
    return started_;
  }

 private:
  Executor& executor_;
  mutable Mutex mutex_;
  Events started_ ABSL_GUARDED_BY(mutex_);
};

// Replicas on real threads: each has the summands ready that are its own, in the same order.
TEST(GroupSum, BucketsStartInOneOrderOnManyThreads) {
  constexpr size_t kThreads = 4;
  constexpr size_t kSummands = 24;
  for (int turn = 0; turn < 100; ++turn) {
    ThreadPool pool({"replicas", kThreads});
    auto communicator = std::make_unique<ToldCommunicator>(pool);
    const ToldCommunicator& told = *communicator;
    const auto group = std::make_shared<GangGroup>(std::move(communicator), pool);
    std::vector<SummandType> summands;
    for (size_t i = 0; i < kSummands; ++i) {
      summands.push_back({absl::StrCat("s", i), DType::kInt32, Shape{3}});
    }
    GroupCommunication communication;
    communication.bytes_per_pack = 1;
    const auto sum = GroupSum::Make(group, communication, summands);
    ASSERT_TRUE(sum.ok()) << sum.status();
    std::atomic<size_t> left{kSummands};
    Event done;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      pool.Run([&, thread] {
        for (size_t i = kSummands; i-- > 0;) {
          if (i % kThreads != thread) continue;
          (*sum)->PlaceNeutral(i);
          EXPECT_TRUE((*sum)->Ready(i).ok());
          if (left.fetch_sub(1) > 1) continue;
          (*sum)->Finish([&done](const auto& sums) {
            EXPECT_TRUE(sums.ok()) << sums.status();
            done.Notify();
          });
        }
      });
    }
    ASSERT_TRUE(done.WaitFor(absl::Minutes(1)));
    Events wanted;
    for (size_t i = 0; i < kSummands; ++i) {
      wanted.push_back(absl::StrCat("bucket ", i, " with s", kSummands - 1 - i));
    }
    EXPECT_EQ(told.started(), wanted);
  }
}

}  // namespace
}  // namespace cohort
