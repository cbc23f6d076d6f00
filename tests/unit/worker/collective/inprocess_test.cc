#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "tests/support/communicators/inprocess_communicator.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

std::vector<std::unique_ptr<Communicator>> RanksOf(InProcessGroup& group, int size) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(group.CommunicatorOf(rank));
  return ranks;
}

// A rank that aborts when the world has gone on for so many events. Thread-compatible.
class LateAbort final : public Communicator {
 public:
  LateAbort(std::unique_ptr<Communicator> rank, SimWorld& world, int events)
      : rank_(std::move(rank)), world_(world), events_(events) {}
  int rank() const override { return rank_->rank(); }
  int size() const override { return rank_->size(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return rank_->Allocate(bytes);
  }
  void Start(CollectiveCall call, Done done) override {
    rank_->Start(std::move(call), std::move(done));
  }
  void Abort(absl::Status root_cause) override {
    for (int i = 0; i < events_; ++i) world_.Step();
    rank_->Abort(std::move(root_cause));
  }

 private:
  const std::unique_ptr<Communicator> rank_;
  SimWorld& world_;
  const int events_;
};

class SimGroup final : public GroupUnderTest {
 public:
  // Each rank aborts when the world has gone on for so many events.
  SimGroup(int size, int events) : group_(world_, world_, {{"replicas", 1}, size, 3}) {
    for (auto& rank : RanksOf(group_, size)) {
      ranks_.push_back(std::make_unique<LateAbort>(std::move(rank), world_, events));
    }
  }
  Communicator& Of(int rank) override { return *ranks_[static_cast<size_t>(rank)]; }
  Waiter& waiter() override { return waiter_; }

 private:
  SimWorld world_{1};
  SimWaiter waiter_{world_};
  InProcessGroup group_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

class ThreadGroup final : public GroupUnderTest {
 public:
  explicit ThreadGroup(int size)
      : group_(clock_, pool_, {{"replicas", 1}, size, 3}), ranks_(RanksOf(group_, size)) {}
  Communicator& Of(int rank) override { return *ranks_[static_cast<size_t>(rank)]; }
  Waiter& waiter() override { return waiter_; }

 private:
  ThreadPool pool_{{"replicas", 3}};
  RealClock clock_;
  BlockingWaiter waiter_;
  InProcessGroup group_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST(InProcessCommunicator, StallIsLoggedWithWhoIsMissing) {
  SimWorld world(1);
  InProcessGroup group(world, world, {{"replicas", 7}, 3, 1, absl::Seconds(10)});
  const auto ranks = RanksOf(group, 3);
  int done = 0;
  const auto start = [&](size_t rank, const std::string& name) {
    CollectiveCall call;
    call.name = name;
    ranks[rank]->Start(call, [&done](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      ++done;
    });
  };
  for (size_t rank = 0; rank < 3; ++rank) start(rank, "first");
  world.RunFor(absl::Seconds(1));
  start(2, "second");
  start(0, "second");
  testing::internal::CaptureStderr();
  world.RunFor(absl::Seconds(35));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::HasSubstr("event=collective_stall group=replicas generation=7 rank=2 "
                                      "call=\"1, barrier 'second'\""));
  EXPECT_THAT(log, testing::HasSubstr(
                       "not_started_by=\"rank 1 (last done there: call 0, barrier 'first')\""));
  EXPECT_THAT(log, testing::HasSubstr("under_way=29s")) << "and again";
  start(1, "second");
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(done, 6);
}

// An operation is some events: tasks that each do a part of it. The rank fails after 0 to 16 calls,
// and as many events would always be all of their work: so the events take turns in another circle.
TEST(InProcessCommunicator, FailureAfterSomeTasks) {
  int events = 0;
  CheckFailureAfterSomeCalls({"in-process, failing later", [&events](int size) {
                                return std::make_unique<SimGroup>(size, events++ % 7);
                              }});
}

TEST(InProcessCommunicator, OneThread) {
  CheckAll(
      {"in-process, one thread", [](int size) { return std::make_unique<SimGroup>(size, 0); }});
}

TEST(InProcessCommunicator, Threads) {
  CheckAll({"in-process", [](int size) { return std::make_unique<ThreadGroup>(size); }});
}

}  // namespace
}  // namespace cohort
