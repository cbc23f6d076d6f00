// Several workers of multi_worker_mirrored that come back at once. Gangs stand while copies are
// made, so the time that they take together is what counts.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "tests/conformance/workers_that_are_lost.h"
#include "tests/support/network/sim_transport.h"

namespace cohort {
namespace {

constexpr int kWorkers = 5;
constexpr uint64_t kSeeds = 8;
constexpr absl::Duration kCopyTime = absl::Seconds(1);

// Copies take `time` longer than their bytes need.
class SlowCopies final : public SimWatcher {
 public:
  explicit SlowCopies(absl::Duration time) : time_(time) {}
  SimFate OnRequest(const SimMessage& message) override {
    if (absl::EndsWith(message.method, "/HoldShard")) Begin(message.to);
    if (absl::EndsWith(message.method, "/ReleaseShard")) --under_way_[message.to];
    return {};
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage& message) override {
    SimFate fate;
    if (absl::EndsWith(message.method, "/HoldShard")) fate.delay = time_;
    return fate;
  }
  int copies() const { return copies_; }
  int of_one_max() const { return of_one_max_; }  // at the same time, of the same source

 private:
  void Begin(const std::string& source) {
    ++copies_;
    of_one_max_ = std::max(of_one_max_, ++under_way_[source]);
  }

  const absl::Duration time_;
  std::map<std::string, int> under_way_;  // by source
  int copies_ = 0;
  int of_one_max_ = 0;
};

class MultiWorkerNewcomers : public WorkersThatAreLost {
 protected:
  MultiWorkerNewcomers() : WorkersThatAreLost(kWorkers) {}

  // Trains until all but so many are lost, and again until they are back. How long the copies of
  // all of them took.
  absl::Duration LoseAndReplace(int lost) {
    SlowCopies copies(kCopyTime);
    Connect(CoordinatorOptionsOf(job_));
    TrainUntilInStep(kWorkers);
    const auto each = [&](auto&& action) {
      for (int i = 0; i < lost; ++i) action(Worker(GetParam() + static_cast<uint64_t>(i)));
    };
    each([&](const TaskId& task) { cluster_.tasks().Kill(task); });
    TrainUntilInStep(kWorkers - lost);
    // None of them serves before all do.
    cluster_.network().SetWatcher(&copies);
    each([&](const TaskId& task) { cluster_.network().Cut(task.ToString(), "chief:0"); });
    each([&](const TaskId& task) { cluster_.tasks().Start(task); });
    cluster_.sim().RunFor(absl::Seconds(1));
    cluster_.network().HealAll();
    cluster_.sim().RunUntil([&] { return copies.copies() > 0; }, absl::Minutes(1));
    const absl::Time begin = cluster_.sim().Now();
    cluster_.sim().RunUntil([&] { return InStep() == kWorkers; }, absl::Minutes(1));
    const absl::Duration took = cluster_.sim().Now() - begin;
    cluster_.network().SetWatcher(nullptr);
    EXPECT_EQ(copies.copies(), lost);
    EXPECT_EQ(copies.of_one_max(), 1);
    TrainUntilInStep(kWorkers);
    const auto losses = training_->Losses();
    EXPECT_TRUE(losses.ok()) << losses.status();
    if (losses.ok()) ExpectNear(*losses, OneDevice(scheduled_).losses);
    ExpectSameCopies();
    EXPECT_EQ(coordinator_->stats().recoveries, 0u);
    return took;
  }
};

TEST_P(MultiWorkerNewcomers, EachGetsACopyOfAMemberOfItsOwn) {
  EXPECT_LT(LoseAndReplace(2), 1.5 * kCopyTime);
}

// The first has one of the only member, the next two of these two, and the last of any.
TEST_P(MultiWorkerNewcomers, WhoHasGotACopyGivesTheNextOne) {
  const absl::Duration took = LoseAndReplace(4);
  EXPECT_GT(took, 3 * kCopyTime);
  EXPECT_LT(took, 3.5 * kCopyTime);
}

// A source may be silent for 4 s, and needs longer for its bytes.
TEST_P(MultiWorkerNewcomers, ACopyOverASlowLinkTakesAsLongAsItsBytesMove) {
  SlowCopies copies(absl::ZeroDuration());
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  cluster_.tasks().Kill(Worker(1));
  TrainUntilInStep(kWorkers - 1);
  cluster_.network().SetWatcher(&copies);
  cluster_.network().SetRate(18e3);
  const absl::Time begin = cluster_.sim().Now();
  cluster_.tasks().Start(Worker(1));
  cluster_.sim().RunUntil([&] { return InStep() == kWorkers; }, absl::Minutes(5));
  EXPECT_EQ(InStep(), kWorkers);
  EXPECT_GT(cluster_.sim().Now() - begin, absl::Seconds(5));
  EXPECT_EQ(copies.copies(), 1) << "the first copy arrived";
  cluster_.network().SetRate(1e9);
  cluster_.network().SetWatcher(nullptr);
  TrainUntilInStep(kWorkers);
  ExpectSameCopies();
}

// Nobody reaches them, and they are asked for again and again. While gangs stand each has one turn
// of 4 s at the only member.
TEST_P(MultiWorkerNewcomers, GangsRunAgainWhenEachHasHadItsTurn) {
  Connect(CoordinatorOptionsOf(job_));
  TrainUntilInStep(kWorkers);
  for (uint64_t lost = 1; lost < kWorkers; ++lost) {
    cluster_.network().Cut(HostOf(0), HostOf(lost));
    cluster_.tasks().Kill(Worker(lost));
  }
  TrainUntilInStep(1);
  for (uint64_t lost = 1; lost < kWorkers; ++lost) cluster_.tasks().Start(Worker(lost));
  absl::Duration longest;
  const absl::Time end = cluster_.sim().Now() + absl::Minutes(2);
  while (cluster_.sim().Now() < end) {
    longest = std::max(longest, TrainUntilInStep(1));
    cluster_.sim().RunFor(absl::Milliseconds(100));  // so that the time has few steps
  }
  EXPECT_GT(longest, absl::Seconds(2)) << "there were tries";
  EXPECT_LT(longest, (kWorkers - 1) * 2 * absl::Seconds(4)) << "two turns";
}

INSTANTIATE_TEST_SUITE_P(Seeds, MultiWorkerNewcomers, testing::Range<uint64_t>(1, kSeeds + 1));

}  // namespace
}  // namespace cohort
