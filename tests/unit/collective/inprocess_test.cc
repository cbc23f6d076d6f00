#include <gtest/gtest.h>

#include "common/base/real_clock.h"
#include "common/base/sim_world.h"
#include "common/base/thread_pool.h"
#include "tests/unit/collective/conformance/conformance.h"
#include "worker/collective/inprocess_communicator.h"

namespace cohort {
namespace {

// Lives on the thread of the test.
class SimWaiter final : public Waiter {
 public:
  explicit SimWaiter(SimWorld& world) : world_(world) {}
  bool Wait(const Event& event, absl::Duration timeout) override {
    return world_.RunUntil([&event] { return event.HasHappened(); }, timeout);
  }

 private:
  SimWorld& world_;
};

std::vector<std::unique_ptr<Communicator>> RanksOf(InProcessGroup& group, int size) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(group.CommunicatorOf(rank));
  return ranks;
}

class SimGroup final : public GroupUnderTest {
 public:
  explicit SimGroup(int size)
      : group_(world_, world_, {{"replicas", 1}, size, 3}), ranks_(RanksOf(group_, size)) {}
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

TEST(InProcessCommunicator, OneThread) {
  CheckAll({"in-process, one thread", [](int size) { return std::make_unique<SimGroup>(size); }});
}

TEST(InProcessCommunicator, Threads) {
  CheckAll({"in-process", [](int size) { return std::make_unique<ThreadGroup>(size); }});
}

}  // namespace
}  // namespace cohort
