// Ranks that die while frames are under way: every other rank ends, with one cause.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"

namespace cohort {
namespace {

using A = CollectiveAlgorithm;
using testing::HasSubstr;

constexpr char kDeliver[] = "/cohort.proto.CollectiveService/Deliver";
constexpr int kTransfersMax = 16;
constexpr int kCallsOfARun = 24;  // the shortest send a frame of each rank in most calls

// The i-th of a run of calls of one kind, from or to each rank by turns.
std::vector<CollectiveCall> CallsOfRun(int size, CollectiveOp op, A algorithm, int i) {
  const int64_t count = 300 + 700 * (i % 2);
  CollectiveCall call;
  call.op = op;
  call.count = count;
  call.name = "w";
  call.algorithm = algorithm;
  call.root = i % size;
  return WithParts(size, call, count);
}

// Kills a host when it sends its k-th frame. Lives on the world's thread.
class KillAfter final : public SimWatcher {
 public:
  KillAfter(SimNetwork& network, std::string host, int transfers)
      : network_(network), host_(std::move(host)), left_(transfers) {}
  SimFate OnRequest(const SimMessage& message) override {
    if (message.method != kDeliver || message.from != host_ || left_-- != 0) return {};
    killed_ = true;
    network_.Kill(host_);
    return {};
  }
  bool killed() const { return killed_; }
  void OnArrival(const SimMessage& message) override {}
  SimFate OnResponse(const SimMessage& message) override { return {}; }

 private:
  SimNetwork& network_;
  const std::string host_;
  int left_;
  bool killed_ = false;
};

// Some calls of all ranks, of which one is killed when it sends its k-th frame, and a sum of those
// that are left. Whatever fails on whatever rank must fail with one cause.
void RunWithKilled(int size, CollectiveOp op, A algorithm, int killed, int transfers) {
  auto world = std::make_shared<SimLaneWorld>(7, size);
  LaneRanks ranks(world, LaneGroupSpec{size, 1, HostsOf(size, 2), {}});
  KillAfter watcher(world->network(), absl::StrCat("host", killed), transfers);
  world->network().SetWatcher(&watcher);
  const absl::Time begin = world->world().Now();
  std::vector<std::unique_ptr<GroupRun>> runs;
  for (int i = 0; i < kCallsOfARun; ++i) {
    // The last begins when it has happened.
    const bool last = i + 1 == kCallsOfARun;
    const auto calls = last ? CallsOfRun(size, CollectiveOp::kAllReduce, A::kAuto, i)
                            : CallsOfRun(size, op, algorithm, i);
    runs.push_back(
        std::make_unique<GroupRun>(ranks, calls, RandomInputs(calls, 3), Place::kApart, i));
    if (last) {
      ASSERT_TRUE(world->world().RunUntil([&] { return watcher.killed(); }, absl::Seconds(5)));
    }
    for (int rank = 0; rank < size; ++rank) {
      if (!last || rank != killed) runs.back()->Start(rank);
    }
  }
  for (const auto& run : runs) run->Forget(killed);
  absl::Status cause;
  for (const auto& run : runs) {
    ASSERT_TRUE(run->Wait()) << "hangs";
    const GroupResult result = run->Result();
    for (int rank = 0; rank < size; ++rank) {
      const absl::Status& status = result.statuses[static_cast<size_t>(rank)];
      if (rank == killed || status.ok()) continue;
      if (cause.ok()) cause = status;
      EXPECT_EQ(status, cause) << "rank " << rank;
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_FALSE(rank != killed && runs.back()->Result().statuses[static_cast<size_t>(rank)].ok());
  }
  EXPECT_EQ(cause.code(), absl::StatusCode::kUnavailable) << cause;
  EXPECT_THAT(std::string(cause.message()),
              HasSubstr(absl::StrCat("rank ", killed, ", worker:", killed, ", was lost")));
  EXPECT_EQ(DetailOf(cause).origin().index(), killed);
  EXPECT_LT(world->world().Now() - begin, absl::Seconds(1)) << "of the simulated clock";
  world->network().SetWatcher(nullptr);
}

TEST(LaneFaults, RankKilledAfterSomeTransfers) {
  constexpr int kSize = 4;
  using Op = CollectiveOp;
  for (const auto& [op, algorithms] : std::map<Op, std::vector<A>>{
           {Op::kAllReduce,
            {A::kOneShot, A::kTwoShot, A::kRecursiveDoubling, A::kRing, A::kHierarchical}},
           {Op::kReduceScatter, {A::kTwoShot, A::kRing}},
           {Op::kAllGather, {A::kTwoShot, A::kRing}},
           {Op::kBroadcast, {A::kTree, A::kChain}},
           {Op::kReduce, {A::kTree, A::kTwoShot}},
           {Op::kAllToAll, {A::kTwoShot}},
           {Op::kBarrier, {A::kRecursiveDoubling}}}) {
    for (const A algorithm : algorithms) {
      for (int killed = 0; killed < kSize; ++killed) {
        for (int transfers = 0; transfers <= kTransfersMax; ++transfers) {
          SCOPED_TRACE(absl::StrCat(OpName(op), " by ", AlgorithmName(algorithm), ", rank ", killed,
                                    " killed after ", transfers, " transfers"));
          RunWithKilled(kSize, op, algorithm, killed, transfers);
          if (HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort
