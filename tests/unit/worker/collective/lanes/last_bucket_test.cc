// A rank dies when some have completed the last bucket of a step and others have not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

using A = CollectiveAlgorithm;

constexpr int kSize = 4;
constexpr int kBuckets = 3;
constexpr uint64_t kSeedsMax = 500;

// Who dies when `first` has completed its buckets and `second` has not.
struct Deaths {
  int first = 0;
  int second = 0;
  int killed = 0;
};

// The buckets of one step on all ranks. Belongs to the thread of the test.
class Step {
 public:
  Step(LaneRanks& ranks, A algorithm) {
    for (int i = 0; i < kBuckets; ++i) {
      CollectiveCall call;
      call.op = CollectiveOp::kAllReduce;
      call.count = 300 + 700 * i;
      call.name = absl::StrCat("bucket ", i);
      call.algorithm = algorithm;
      const auto calls = CallsOf(kSize, call);
      const auto inputs = RandomInputs(calls, static_cast<uint64_t>(i));
      wanted_.push_back(Wanted(calls, inputs));
      runs_.push_back(std::make_unique<GroupRun>(ranks, calls, inputs, Place::kInPlace, i));
    }
  }

  void StartAll() {
    for (const auto& run : runs_) run->StartAll();
  }
  bool IsDone(int rank) const {
    for (const auto& run : runs_) {
      if (!run->IsDone(rank)) return false;
    }
    return true;
  }
  void Forget(int rank) {
    for (const auto& run : runs_) run->Forget(rank);
  }
  bool Wait() {
    for (const auto& run : runs_) {
      if (!run->Wait()) return false;
    }
    return true;
  }
  // Each bucket of a rank has the bits of the sum, or ended with `cause`. Whether all have them.
  bool ExpectSumOr(int rank, const absl::Status& cause) const {
    const auto r = static_cast<size_t>(rank);
    bool complete = true;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const GroupResult result = runs_[i]->Result();
      complete = complete && result.statuses[r].ok();
      if (result.statuses[r].ok()) {
        EXPECT_EQ(Difference(DType::kFloat32, result.outputs[r], wanted_[i][r]), "") << rank;
      } else {
        EXPECT_EQ(result.statuses[r], cause) << "rank " << rank;
      }
    }
    return complete;
  }

 private:
  std::vector<std::unique_ptr<GroupRun>> runs_;
  std::vector<std::vector<Bytes>> wanted_;  // by bucket and rank
};

// A later call of the survivors, which the dead one does not start.
absl::Status NextStep(LaneRanks& ranks, int killed) {
  CollectiveCall call;
  call.op = CollectiveOp::kBarrier;
  const auto calls = CallsOf(kSize, call);
  GroupRun run(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank != killed) run.Start(rank);
  }
  EXPECT_TRUE(run.Wait()) << "hangs";
  const GroupResult result = run.Result();
  const absl::Status& cause = result.statuses[killed == 0 ? 1 : 0];
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == killed) continue;
    EXPECT_EQ(result.statuses[static_cast<size_t>(rank)], cause) << "rank " << rank;
  }
  return cause;
}

// False when `second` was as early as `first` under this seed.
bool DieBetween(A algorithm, const Deaths& deaths, uint64_t seed) {
  auto world = std::make_shared<SimLaneWorld>(seed, kSize);
  FaultPlan faults;
  faults.delay = 0.5;
  faults.delay_max = absl::Milliseconds(20);
  world->network().SetFaults(faults);
  LaneRanks ranks(world, LaneGroupSpec{kSize, 1, HostsOf(kSize, 2), {}});
  Step step(ranks, algorithm);
  step.StartAll();
  EXPECT_TRUE(world->world().RunUntil([&] { return step.IsDone(deaths.first); }, absl::Minutes(1)));
  if (step.IsDone(deaths.second)) {
    EXPECT_TRUE(step.Wait());
    return false;
  }
  world->network().Kill(absl::StrCat("host", deaths.killed));
  const absl::Time death = world->world().Now();
  step.Forget(deaths.killed);
  const absl::Status cause = NextStep(ranks, deaths.killed);
  EXPECT_TRUE(step.Wait()) << "hangs";
  EXPECT_LT(world->world().Now() - death, absl::Seconds(1)) << "of the simulated clock";
  EXPECT_EQ(cause.code(), absl::StatusCode::kUnavailable) << cause;
  EXPECT_THAT(std::string(cause.message()),
              testing::HasSubstr(
                  absl::StrCat("rank ", deaths.killed, ", worker:", deaths.killed, ", was lost")));
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == deaths.killed) continue;
    const bool complete = step.ExpectSumOr(rank, cause);
    EXPECT_TRUE(complete || rank != deaths.first) << "what it had completed";
  }
  return true;
}

// Every survivor either has all buckets of the step, with the same bits as all who have them, or
// has the cause, which is one for all: so it is at this step or at the one before, and nowhere
// between.
TEST(LastBucket, RankKilledBetweenItsCompletionOnTwoRanks) {
  for (const A algorithm :
       {A::kOneShot, A::kTwoShot, A::kRecursiveDoubling, A::kRing, A::kHierarchical}) {
    for (int first = 0; first < kSize; ++first) {
      for (int turn = 1; turn < kSize; ++turn) {
        for (int killed = 0; killed < kSize; ++killed) {
          const Deaths deaths{first, (first + turn) % kSize, killed};
          SCOPED_TRACE(absl::StrCat(AlgorithmName(algorithm), ": rank ", killed, " killed between ",
                                    deaths.first, " and ", deaths.second));
          uint64_t seed = 1;
          while (seed < kSeedsMax && !DieBetween(algorithm, deaths, seed)) ++seed;
          EXPECT_LT(seed, kSeedsMax) << "it never came between";
          if (HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort
