// A worker of multi_worker_mirrored that ends again and again in one kind of call, beside members
// that are well. The job goes on for as long as that lasts: no step is left out or given up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "tests/conformance/workers_that_are_lost.h"

namespace cohort {
namespace {

// More than the attempts that a closure has by default.
constexpr int kCrashes = 14;

// A worker is started again before its loss is noticed, or behind that.
constexpr absl::Duration kSoon = absl::Milliseconds(300);
constexpr absl::Duration kLate = absl::Seconds(2);

// Kills one worker whenever a call of one kind reaches it, and starts it again after a while.
class CrashLoop final : public SimWatcher {
 public:
  CrashLoop(SimCluster& cluster, TaskId worker, std::string method, absl::Duration away)
      : cluster_(cluster), worker_(worker), method_(std::move(method)), away_(away) {}

  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (is_over || message.to != worker_.ToString()) return;
    if (!absl::EndsWith(message.method, method_)) return;
    ++crashes;
    SimWorld& sim = cluster_.sim();
    sim.Run([this] { cluster_.tasks().Kill(worker_); });
    sim.CallAt(sim.Now() + away_, [this] { cluster_.tasks().Start(worker_); });
    cluster_.network().Kill(worker_.ToString());
  }
  SimFate OnResponse(const SimMessage&) override { return {}; }

  int crashes = 0;
  bool is_over = false;

 private:
  SimCluster& cluster_;
  const TaskId worker_;
  const std::string method_;
  const absl::Duration away_;
};

class CrashLoopOfAMember : public WorkersThatAreLost {
 protected:
  explicit CrashLoopOfAMember(int workers) : WorkersThatAreLost(workers) {}

  void ExpectTheOthersTrainOn(const std::string& method, absl::Duration away) {
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job_);
    options.quarantine_after = 1;  // one death counts, if any does
    Connect(std::move(options));
    const TaskId worker = Worker(GetParam());
    CrashLoop loop(cluster_, worker, method, away);
    TrainUntilInStep(workers_);
    cluster_.network().SetWatcher(&loop);
    // It has everything that it needs by now: a new process is given that again.
    cluster_.tasks().Kill(worker);
    cluster_.tasks().Start(worker);
    const absl::Time end = cluster_.sim().Now() + absl::Minutes(5);
    while (loop.crashes < kCrashes && cluster_.sim().Now() < end) {
      const uint64_t done = coordinator_->stats().done;
      const absl::Status scheduled = training_->Schedule();
      ASSERT_TRUE(scheduled.ok()) << scheduled << " behind " << loop.crashes << " crashes";
      ++scheduled_;
      cluster_.sim().RunUntil([&] { return coordinator_->stats().done > done; }, absl::Seconds(5));
      if (away > kSoon) {
        EXPECT_GT(coordinator_->stats().done, done) << "the others are not held up";
      }
      cluster_.sim().RunFor(absl::Milliseconds(100));
    }
    EXPECT_GE(loop.crashes, kCrashes);
    loop.is_over = true;
    TrainUntilInStep(workers_);
    const auto losses = training_->Losses();
    ASSERT_TRUE(losses.ok()) << losses.status();
    EXPECT_EQ(losses->size(), static_cast<size_t>(scheduled_));
    // Fewer replicas round otherwise, which thousands of steps amplify.
    constexpr int64_t kCompared = 200;
    const int64_t compared = std::min(scheduled_, kCompared);
    ExpectNear({losses->begin(), losses->begin() + compared}, OneDevice(compared).losses);
    ExpectSameCopies();
    EXPECT_EQ(coordinator_->stats().quarantined, 0u);
    EXPECT_EQ(coordinator_->stats().failed, 0u);
    EXPECT_EQ(coordinator_->stats().recoveries, 0u);
    cluster_.network().SetWatcher(nullptr);
  }
};

class CrashLoopOfOneOfThree : public CrashLoopOfAMember {
 protected:
  CrashLoopOfOneOfThree() : CrashLoopOfAMember(3) {}
};

class CrashLoopOfOneOfTwo : public CrashLoopOfAMember {
 protected:
  CrashLoopOfOneOfTwo() : CrashLoopOfAMember(2) {}
};

TEST_P(CrashLoopOfOneOfThree, InTheStepEndsNoJob) { ExpectTheOthersTrainOn("/RunClosure", kSoon); }

// It is back before its loss is noticed, so that the same step meets each crash.
TEST_P(CrashLoopOfOneOfThree, InCreateDatasetEndsNoJobHoweverFastItIsBack) {
  ExpectTheOthersTrainOn("/CreateDataset", kSoon);
}

TEST_P(CrashLoopOfOneOfThree, InCreateDatasetEndsNoJob) {
  ExpectTheOthersTrainOn("/CreateDataset", kLate);
}

TEST_P(CrashLoopOfOneOfTwo, InTheStepEndsNoJob) { ExpectTheOthersTrainOn("/RunClosure", kSoon); }

TEST_P(CrashLoopOfOneOfTwo, InCreateDatasetEndsNoJobHoweverFastItIsBack) {
  ExpectTheOthersTrainOn("/CreateDataset", kSoon);
}

TEST_P(CrashLoopOfOneOfTwo, InCreateDatasetEndsNoJob) {
  ExpectTheOthersTrainOn("/CreateDataset", kLate);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CrashLoopOfOneOfThree, testing::Range(uint64_t{1}, uint64_t{4}));
INSTANTIATE_TEST_SUITE_P(Seeds, CrashLoopOfOneOfTwo, testing::Range(uint64_t{1}, uint64_t{4}));

}  // namespace
}  // namespace cohort
