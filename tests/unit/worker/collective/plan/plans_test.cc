// What the algorithms send, counted in their plans, and the orders and borders that TensorFlow has.

#include "worker/collective/plan/plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/collective/plan/algorithm_choice.h"
#include "worker/collective/plan/segments.h"
#include "worker/collective/reduce_tree.h"

namespace cohort {
namespace {

using A = CollectiveAlgorithm;
using testing::ElementsAre;
using testing::HasSubstr;

CollectiveCall CallOf(CollectiveOp op, DType dtype, int64_t count, A algorithm) {
  CollectiveCall call;
  call.op = op;
  call.dtype = dtype;
  call.count = count;
  call.algorithm = algorithm;
  return call;
}

HostLayout OneEach(int size) {
  HostLayout hosts;
  for (int rank = 0; rank < size; ++rank) hosts.host_of.push_back(rank);
  return hosts;
}

struct Sent {
  int64_t bytes = 0;
  int64_t frames = 0;
};

int64_t BytesOf(const Ref& ref, DType dtype) {
  return ref.count * static_cast<int64_t>(ElementSize(ref.partial ? AccumulatorOf(dtype) : dtype));
}

Sent SentBy(const RankPlan& plan, DType dtype) {
  Sent sent;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kSend) continue;
    sent.bytes += BytesOf(plan.RefsOf(step)[0], dtype);
    ++sent.frames;
  }
  return sent;
}

std::vector<RankPlan> PlansOf(const CollectiveCall& call, int size, const HostLayout& hosts) {
  std::vector<RankPlan> plans;
  for (int rank = 0; rank < size; ++rank) {
    const PlanInput in{call, rank, size, hosts};
    plans.push_back(PlanOf(in, ChooseAlgorithm(in)));
  }
  return plans;
}

// The most dependent messages in a row, in the plans of all ranks together.
int StepsInARow(const std::vector<RankPlan>& plans) {
  std::map<std::tuple<size_t, int, uint32_t>, int> arrived;  // from, to, tag: messages in a row
  int longest = 0;
  std::vector<std::vector<int>> depth;
  for (const RankPlan& plan : plans) depth.emplace_back(plan.steps.size(), -1);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      for (size_t i = 0; i < plans[rank].steps.size(); ++i) {
        const PlanStep& step = plans[rank].steps[i];
        if (depth[rank][i] >= 0) continue;
        int own = 0;
        bool ready = true;
        for (const Ref& ref : plans[rank].RefsOf(step)) {
          if (ref.step == Ref::kNoStep) continue;
          ready = ready && depth[rank][ref.step] >= 0;
          own = std::max(own, depth[rank][ref.step]);
        }
        if (step.kind == PlanStep::Kind::kReceive) {
          const auto found =
              arrived.find({static_cast<size_t>(step.peer), static_cast<int>(rank), step.tag});
          ready = found != arrived.end();
          if (ready) own = found->second;
        }
        if (!ready) continue;
        if (step.kind == PlanStep::Kind::kSend) {
          const auto key = std::tuple(rank, step.peer, step.tag);
          EXPECT_EQ(arrived.count(key), 0u) << "a tag is used twice";
          arrived[key] = own + 1;
        }
        depth[rank][i] = own;
        longest = std::max(longest, own);
        moved = true;
      }
    }
  }
  for (const auto& of_rank : depth) {
    for (const int one : of_rank) EXPECT_GE(one, 0) << "a step that never comes";
  }
  return longest;
}

TEST(Plans, TwoShotAndRingSendAsLittleAsCanBe) {
  for (const A algorithm : {A::kTwoShot, A::kRing}) {
    for (int n = 2; n <= 9; ++n) {
      for (const int64_t count : {1001, 1 << 20, 1045991}) {
        const auto plans = PlansOf(
            CallOf(CollectiveOp::kAllReduce, DType::kFloat32, count, algorithm), n, OneEach(n));
        int64_t all = 0;
        const double ideal = 2.0 * (n - 1) / n * static_cast<double>(count) * 4;
        for (const RankPlan& plan : plans) {
          const int64_t bytes = SentBy(plan, DType::kFloat32).bytes;
          all += bytes;
          // Chunks are whole cache lines, which moves a line or two between neighbours.
          EXPECT_LE(static_cast<double>(bytes), ideal + 2.0 * 128 * n)
              << AlgorithmName(algorithm) << " " << n << " ranks, " << count;
        }
        EXPECT_EQ(all, 2 * (n - 1) * count * 4) << AlgorithmName(algorithm) << " " << n;
      }
    }
  }
}

TEST(Plans, StepsInARow) {
  for (int n = 2; n <= 9; ++n) {
    const auto steps = [&](CollectiveOp op, A algorithm) {
      return StepsInARow(PlansOf(CallOf(op, DType::kFloat32, 1000, algorithm), n, OneEach(n)));
    };
    const int rounds = static_cast<int>(std::ceil(std::log2(n)));
    EXPECT_EQ(steps(CollectiveOp::kAllReduce, A::kOneShot), 1);
    EXPECT_EQ(steps(CollectiveOp::kAllReduce, A::kTwoShot), 2);
    EXPECT_EQ(steps(CollectiveOp::kAllReduce, A::kRecursiveDoubling), rounds) << n;
    EXPECT_EQ(steps(CollectiveOp::kAllReduce, A::kRing), 2 * (n - 1));
    EXPECT_EQ(steps(CollectiveOp::kBarrier, A::kAuto), rounds);
    EXPECT_EQ(steps(CollectiveOp::kBroadcast, A::kChain), n - 1);
    EXPECT_LE(steps(CollectiveOp::kBroadcast, A::kTree), rounds);
    // The root of a block that is not whole gets the smaller ones it is made of side by side.
    EXPECT_EQ(steps(CollectiveOp::kReduce, A::kTree), static_cast<int>(std::log2(n))) << n;
    EXPECT_EQ(steps(CollectiveOp::kReduce, A::kTwoShot), 2);
  }
}

TEST(Plans, HierarchicalSendsLittleAcrossHosts) {
  constexpr int64_t kCount = 1 << 20;
  HostLayout hosts;
  for (int rank = 0; rank < 8; ++rank) hosts.host_of.push_back(rank / 4);
  const auto plans = PlansOf(
      CallOf(CollectiveOp::kAllReduce, DType::kFloat32, kCount, A::kHierarchical), 8, hosts);
  int64_t across = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const RankPlan& plan = plans[static_cast<size_t>(rank)];
    for (const PlanStep& step : plan.steps) {
      if (step.kind != PlanStep::Kind::kSend || step.peer / 4 == rank / 4) continue;
      across += BytesOf(plan.RefsOf(step)[0], DType::kFloat32);
    }
  }
  // Two hosts exchange their sums: 2 (H-1) S of both together; two-shot would send 2 (8-1) S, of
  // which 4/7 go across.
  EXPECT_EQ(across, 2 * kCount * 4);
  EXPECT_EQ(StepsInARow(plans), 4);
}

TEST(Plans, SixteenBitFloatsTravelAsSuchWhereNothingIsSummedYet) {
  const int64_t count = 160000;
  const auto two_shot = PlansOf(
      CallOf(CollectiveOp::kAllReduce, DType::kBfloat16, count, A::kTwoShot), 4, OneEach(4));
  EXPECT_EQ(SentBy(two_shot[0], DType::kBfloat16).bytes, 2 * 3 * count / 4 * 2);
  // The ring's partial sums are float32 in n-2 of its 2 (n-1) steps.
  const auto ring =
      PlansOf(CallOf(CollectiveOp::kAllReduce, DType::kBfloat16, count, A::kRing), 4, OneEach(4));
  int64_t all = 0;
  for (const RankPlan& plan : ring) all += SentBy(plan, DType::kBfloat16).bytes;
  EXPECT_EQ(all, (4 + 2 * 2) * count * 2);
}

// hierarchical_tree_broadcaster_test.cc: 8 tasks of one device, source 7.
TEST(Plans, BroadcastTreeIsTensorFlows) {
  const auto children = [](int size, int root) {
    CollectiveCall call = CallOf(CollectiveOp::kBroadcast, DType::kFloat32, 10, A::kTree);
    call.root = root;
    std::vector<std::vector<int>> to(static_cast<size_t>(size));
    const auto plans = PlansOf(call, size, OneEach(size));
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      for (const PlanStep& step : plans[rank].steps) {
        if (step.kind == PlanStep::Kind::kSend) to[rank].push_back(step.peer);
      }
    }
    return to;
  };
  EXPECT_THAT(children(8, 7),
              ElementsAre(ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6), ElementsAre(),
                          ElementsAre(), ElementsAre(), ElementsAre(), ElementsAre(0, 1)));
  EXPECT_THAT(children(6, 0), ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5),
                                          ElementsAre(), ElementsAre(), ElementsAre()));
}

// ring_alg.cc's AlignedChunkElts and GenerateSubdivsInCollectiveParams for tasks of one device.
TEST(Plans, RingChunksAreTensorFlows) {
  constexpr int64_t kMiB = 1 << 20;
  // 1 GiB of 4 tasks: 2 subdivisions of 128 MiB, which are whole lines and get one more each.
  EXPECT_EQ(TensorFlowChunkElements(DType::kFloat32, 256 * kMiB, 4), 2 * (128 * kMiB + 64) / 4);
  // 16 MiB of 4: chunks of 4 MiB are not over the limit.
  EXPECT_EQ(TensorFlowChunkElements(DType::kFloat32, 4 * kMiB, 4), (4 * kMiB + 64) / 4);
  // 1001 floats of 4: 251 of each, 1004 bytes, in 1024.
  EXPECT_EQ(TensorFlowChunkElements(DType::kFloat32, 1001, 4), 256);
  // 10 of 4: 12 bytes, in 64. All lie in the first chunk.
  EXPECT_EQ(TensorFlowChunkElements(DType::kFloat32, 10, 4), 16);
  EXPECT_EQ(TensorFlowChunkElements(DType::kFloat64, 1000, 4), 256);
  EXPECT_EQ(TensorFlowChunkElements(DType::kBfloat16, 1000, 4), 256);
}

// A chunk of TensorFlow's is up to two lines larger than an even share: no frame is theirs alone.
TEST(Plans, AllReducesSendAsFewFramesAsTheirSizeAllows) {
  constexpr int64_t kMiB = 1 << 20;
  const auto frames = [](int64_t bytes, int n, A algorithm, DType dtype = DType::kFloat32) {
    const int64_t count = bytes / static_cast<int64_t>(ElementSize(dtype));
    const RankPlan plan =
        PlansOf(CallOf(CollectiveOp::kAllReduce, dtype, count, algorithm), n, OneEach(n))[0];
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const PlanStep& step) { return step.kind == PlanStep::Kind::kSend; });
  };
  for (const A algorithm : {A::kTwoShot, A::kRing}) {
    EXPECT_EQ(frames(kMiB, 4, algorithm), 6);
    EXPECT_EQ(frames(4 * kMiB, 2, algorithm), 2);
    EXPECT_EQ(frames(4 * kMiB, 4, algorithm), 6);
    EXPECT_EQ(frames(16 * kMiB, 2, algorithm), 2 * 4);
    EXPECT_EQ(frames(16 * kMiB, 4, algorithm), 6 * 2);
    EXPECT_EQ(frames(64 * kMiB, 4, algorithm), 6 * 8);
  }
  // Partial sums of the ring's are twice as wide.
  EXPECT_EQ(frames(16 * kMiB, 4, A::kTwoShot, DType::kBfloat16), 6 * 2);
  EXPECT_EQ(frames(16 * kMiB, 4, A::kRing, DType::kBfloat16), 6 * 4);
}

TEST(Plans, MoreThanFourGigabytes) {
  constexpr int64_t kCount = (int64_t{1} << 31) + 12345;  // 8 GiB of float32
  for (const A algorithm : {A::kTwoShot, A::kRing}) {
    const auto plans = PlansOf(CallOf(CollectiveOp::kAllReduce, DType::kFloat32, kCount, algorithm),
                               3, OneEach(3));
    // Every element of the output is written once with a sum of all.
    int64_t written = 0;
    std::set<int64_t> firsts;
    for (const RankPlan& plan : plans) {
      for (const PlanStep& step : plan.steps) {
        if (!step.final || step.target.place != Ref::Place::kOutput) continue;
        written += step.target.count;
        EXPECT_TRUE(firsts.insert(step.target.first).second);
        EXPECT_LE(step.target.count * 4, kEvenSegmentBytesMax);
      }
    }
    EXPECT_EQ(written, kCount);
    EXPECT_GT(*firsts.rbegin(), int64_t{1} << 30);
  }
}

TEST(AlgorithmChoice, FollowsSizeRanksAndHosts) {
  const auto choose = [](int64_t bytes, int n, const HostLayout& hosts, DType dtype) {
    const CollectiveCall call = CallOf(CollectiveOp::kAllReduce, dtype,
                                       bytes / static_cast<int64_t>(ElementSize(dtype)), A::kAuto);
    return ChooseAlgorithm({call, 0, n, hosts});
  };
  const auto flat = [&](int64_t bytes, int n) {
    return choose(bytes, n, OneEach(n), DType::kFloat32);
  };
  EXPECT_EQ(flat(256 << 10, 2), A::kOneShot);
  EXPECT_EQ(flat(257 << 10, 2), A::kTwoShot);
  EXPECT_EQ(flat(16 << 10, 4), A::kOneShot);
  EXPECT_EQ(flat(17 << 10, 4), A::kTwoShot);
  EXPECT_EQ(flat(64 << 20, 2), A::kTwoShot);
  EXPECT_EQ(flat(8 << 10, 8), A::kOneShot);
  EXPECT_EQ(flat(16 << 10, 8), A::kRecursiveDoubling);
  EXPECT_EQ(flat(16 << 20, 8), A::kTwoShot);
  EXPECT_EQ(flat(17 << 20, 8), A::kRing);
  EXPECT_EQ(flat(16 << 20, 16), A::kTwoShot);
  EXPECT_EQ(flat(4 << 20, 17), A::kTwoShot);
  EXPECT_EQ(flat(5 << 20, 17), A::kRing);
  EXPECT_EQ(flat(32 << 10, 32), A::kRecursiveDoubling);
  EXPECT_EQ(choose(64 << 20, 8, OneEach(8), DType::kBfloat16), A::kTwoShot);
  const HostLayout pairs{{0, 0, 1, 1}};
  EXPECT_EQ(choose(1 << 20, 4, pairs, DType::kFloat32), A::kHierarchical);
  EXPECT_EQ(choose(1 << 10, 4, pairs, DType::kFloat32), A::kOneShot);
  // Three and one are no blocks of the tree.
  EXPECT_EQ(choose(1 << 20, 4, {{0, 0, 0, 1}}, DType::kFloat32), A::kTwoShot);
  EXPECT_EQ(RanksPerHostBlock({{0, 0, 1, 1, 2}}), 2);
  EXPECT_EQ(RanksPerHostBlock({{0, 0, 0, 0}}), 0);
  EXPECT_EQ(RanksPerHostBlock({{0, 1, 0, 1}}), 0);
}

TEST(AlgorithmChoice, RefusesWhatAnOperationLacks) {
  const CollectiveCall call = CallOf(CollectiveOp::kBroadcast, DType::kFloat32, 8, A::kOneShot);
  EXPECT_THAT(std::string(CheckAlgorithm({call, 0, 2, OneEach(2)}).message()),
              HasSubstr("broadcast has no algorithm one-shot; leave the choice to auto"));
  const CollectiveCall hosts =
      CallOf(CollectiveOp::kAllReduce, DType::kFloat32, 8, A::kHierarchical);
  EXPECT_THAT(std::string(CheckAlgorithm({hosts, 0, 2, OneEach(2)}).message()),
              HasSubstr("hierarchical needs hosts with the same number of ranks"));
}

}  // namespace
}  // namespace cohort
