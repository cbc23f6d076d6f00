// Lanes that break, ranks that are cut off, come late or leave: every rank ends, with one cause.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "worker/collective/plan/segments.h"

namespace cohort {
namespace {

using A = CollectiveAlgorithm;
using testing::HasSubstr;

constexpr int kTransfersMax = 16;

CollectiveCall SumOf(int64_t count, A algorithm) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.count = count;
  call.name = "w";
  call.algorithm = algorithm;
  return call;
}

// Fails the k-th frame of a rank, or keeps frames from being released. Thread-safe.
class DisturbedLanes final : public PassingLinks {
 public:
  struct Disturbance {
    std::atomic<int> frames_left{1 << 30};  // before one fails
    bool keep = false;                      // the memory of frames
    std::vector<Payload> kept;
  };

  DisturbedLanes(std::unique_ptr<PeerLinks> links, std::shared_ptr<Disturbance> disturbance)
      : PassingLinks(std::move(links)), disturbance_(std::move(disturbance)) {}

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    if (disturbance_->frames_left-- == 0) return consumed(absl::InternalError("injected"));
    if (disturbance_->keep) disturbance_->kept.push_back(frame.payload);
    PassingLinks::Send(to, std::move(frame), std::move(consumed));
  }

 private:
  const std::shared_ptr<Disturbance> disturbance_;
};

LaneGroupSpec Disturbed(int size, int rank,
                        const std::shared_ptr<DisturbedLanes::Disturbance>& disturbance) {
  LaneGroupSpec spec;
  spec.size = size;
  spec.wrap = [rank, disturbance](int of,
                                  std::unique_ptr<PeerLinks> links) -> std::unique_ptr<PeerLinks> {
    if (of != rank) return links;
    return std::make_unique<DisturbedLanes>(std::move(links), disturbance);
  };
  return spec;
}

TEST(LaneFaults, FrameFailsAfterSomeTransfers) {
  constexpr int kSize = 3;
  for (const A algorithm :
       {A::kOneShot, A::kTwoShot, A::kRecursiveDoubling, A::kRing, A::kHierarchical}) {
    for (int rank = 0; rank < kSize; ++rank) {
      for (int transfers = 0; transfers <= kTransfersMax; ++transfers) {
        SCOPED_TRACE(
            absl::StrCat(AlgorithmName(algorithm), ", frame ", transfers, " of rank ", rank));
        auto disturbance = std::make_shared<DisturbedLanes::Disturbance>();
        disturbance->frames_left = transfers;
        LaneGroupSpec spec = Disturbed(kSize, rank, disturbance);
        spec.hosts = HostsOf(kSize, 2);
        LaneRanks ranks(std::make_shared<SimLaneWorld>(5, kSize), spec);
        GroupResult last;
        // Each call sends a frame of each rank at least.
        for (int i = 0; i <= kTransfersMax; ++i) {
          if (i > 0 && !last.statuses[0].ok()) break;
          const auto calls = CallsOf(kSize, SumOf(3000, algorithm));
          last = RunGroup(ranks, calls, RandomInputs(calls, 3), Place::kInPlace, i);
        }
        // Who had all that it needed may have been done with the call in which it happened.
        const auto calls = CallsOf(kSize, SumOf(10, A::kAuto));
        ExpectOneCause(RunGroup(ranks, calls, RandomInputs(calls, 3), Place::kApart, 0),
                       absl::StatusCode::kUnavailable, "does not reach it: injected");
        if (HasFailure()) return;
      }
    }
  }
}

TEST(LaneFaults, MemoryIsTheTransportsUntilItIsReleased) {
  for (const bool abort : {false, true}) {
    auto disturbance = std::make_shared<DisturbedLanes::Disturbance>();
    disturbance->keep = true;
    auto world = std::make_shared<SimLaneWorld>(5, 2);
    LaneRanks ranks(world, Disturbed(2, 0, disturbance));
    const auto calls = CallsOf(2, SumOf(3000, A::kTwoShot));
    GroupRun run(ranks, calls, RandomInputs(calls, 3), Place::kApart, 0);
    run.Start(0);
    if (abort) {
      ranks.Of(1).Abort(absl::CancelledError("enough"));
    } else {
      run.Start(1);
    }
    world->world().RunFor(absl::Seconds(5));
    EXPECT_FALSE(run.IsDone(0)) << "its input is still being sent";
    disturbance->kept.clear();
    ASSERT_TRUE(run.Wait());
    EXPECT_EQ(run.Result().statuses[0].ok(), !abort);
  }
}

TEST(LaneFaults, FramesPointIntoTheCallersMemory) {
  auto disturbance = std::make_shared<DisturbedLanes::Disturbance>();
  disturbance->keep = true;
  LaneRanks ranks(std::make_shared<SimLaneWorld>(5, 2), Disturbed(2, 0, disturbance));
  CollectiveCall call = SumOf(100000, A::kTwoShot);
  const auto inputs = RandomInputs(CallsOf(2, call), 3);
  Bytes outputs[2] = {Bytes(400000), Bytes(400000)};
  Event done[2];
  for (int rank = 0; rank < 2; ++rank) {
    const auto r = static_cast<size_t>(rank);
    call.input = inputs[r];
    call.output = absl::MakeSpan(outputs[r]);
    ranks.Of(rank).Start(call, [&done, rank](absl::Status) { done[rank].Notify(); });
  }
  ASSERT_TRUE(ranks.waiter().Wait(done[1], absl::Seconds(5)));
  size_t bytes = 0;
  for (const Payload& payload : disturbance->kept) {
    for (const ByteSlice& slice : payload) {
      const auto inside = [&slice](const Bytes& memory) {
        return slice.data >= memory.data() &&
               slice.data + slice.size <= memory.data() + memory.size();
      };
      EXPECT_TRUE(inside(inputs[0]) || inside(outputs[0])) << "it was copied";
      bytes += slice.size;
    }
  }
  EXPECT_EQ(bytes, 400000u);  // 2 (n-1)/n of it
  disturbance->kept.clear();
  ASSERT_TRUE(ranks.waiter().Wait(done[0], absl::Seconds(5)));
}

TEST(LaneFaults, CutOffRankEndsToo) {
  auto world = std::make_shared<SimLaneWorld>(5, 3);
  LaneRanks ranks(world, {3, 1, {}, {}});
  const auto calls = CallsOf(3, SumOf(3000, A::kRing));
  GroupRun run(ranks, calls, RandomInputs(calls, 3), Place::kApart, 0);
  run.Start(0);
  run.Start(1);
  world->world().RunFor(absl::Milliseconds(50));
  world->network().Cut("host1", "host0");
  world->network().Cut("host1", "host2");
  const absl::Time begin = world->world().Now();
  // The leases say so on both sides.
  for (const int rank : {0, 1}) {
    ranks.Of(rank).Abort(absl::UnavailableError("worker:1 did not beat for 5s"));
  }
  ASSERT_TRUE(run.Wait());
  EXPECT_LT(world->world().Now() - begin, absl::Seconds(1));
  GroupResult result = run.Result();
  result.statuses.pop_back();
  ExpectOneCause(result, absl::StatusCode::kUnavailable, "worker:1 did not beat for 5s");
}

// Whoever says so has waited for it: another half second would be on top of its lease.
TEST(LaneFaults, WhoIsGivenUpIsNotWaitedFor) {
  auto world = std::make_shared<SimLaneWorld>(5, 3);
  LaneGroupSpec spec;
  spec.size = 3;
  LaneRanks ranks(world, spec);
  const auto calls = CallsOf(3, SumOf(3000, A::kTwoShot));
  GroupRun run(ranks, calls, RandomInputs(calls, 3), Place::kApart, 0);
  for (const char* other : {"host0", "host2"}) world->network().Cut("host1", other);
  run.Start(0);
  run.Start(2);
  // Before a rank finds out by itself that a connection broke.
  const absl::Time begin = world->world().Now();
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  detail.set_given_up(true);
  detail.mutable_origin()->set_role("worker");
  detail.mutable_origin()->set_index(1);
  for (const int rank : {0, 2}) {
    ranks.Of(rank).Abort(
        WithDetail(absl::UnavailableError("worker:1 did not beat for 5s"), detail));
  }
  ASSERT_TRUE(run.Wait());
  EXPECT_LT(world->world().Now() - begin, absl::Milliseconds(20));
  GroupResult result = run.Result();
  result.statuses.erase(result.statuses.begin() + 1);
  ExpectOneCause(result, absl::StatusCode::kUnavailable, "worker:1 did not beat for 5s");
}

TEST(LaneFaults, OldGenerationIsRefusedAndCounted) {
  auto world = std::make_shared<SimLaneWorld>(5, 2);
  LaneGroupSpec spec;
  spec.size = 2;
  LaneRanks ranks(world, spec);
  world->world().RunFor(absl::Seconds(1));
  spec.generation = 2;
  ranks.Reform(spec);
  world->world().RunFor(absl::Seconds(1));
  const uint64_t before = ranks.Router(1).stats().refused_old;
  const auto old = MakeWireLanes(world->TransportOf(0), {{"workers", 1}, 0, ranks.addresses()});
  Event refused;
  CollectiveFrame frame;
  frame.call = "an old call";
  old->Send(1, frame, [&](absl::Status status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ClassOf(status), proto::STALE);
    refused.Notify();
  });
  ASSERT_TRUE(ranks.waiter().Wait(refused, absl::Seconds(5)));
  EXPECT_EQ(ranks.Router(1).stats().refused_old, before + 1);
  ExpectRight(ranks, CallsOf(2, SumOf(100, A::kAuto)), 1, Place::kApart, "generation 2");
}

TEST(LaneFaults, FramesWaitForAGroupThatIsMadeLater) {
  auto world = std::make_shared<SimLaneWorld>(5, 2);
  LaneGroupSpec spec;
  spec.size = 2;
  LaneRanks ranks(world, spec);
  ranks.Leave(0);
  ranks.Leave(1);
  spec.generation = 2;
  ranks.Join(0, spec);
  const auto calls = CallsOf(2, SumOf(100, A::kTwoShot));
  const std::vector<Bytes> inputs = RandomInputs(calls, 1);
  // Memory for rank 1 comes from its communicator, so it is made with the group.
  Bytes output(400);
  CollectiveCall call = calls[0];
  call.input = inputs[0];
  call.output = absl::MakeSpan(output);
  Event done;
  ranks.Of(0).Start(call, [&](absl::Status status) {
    EXPECT_TRUE(status.ok()) << status;
    done.Notify();
  });
  world->world().RunFor(absl::Seconds(2));
  EXPECT_FALSE(done.HasHappened());
  EXPECT_GE(ranks.Router(1).stats().waiting, 1u);
  ranks.Join(1, spec);
  EXPECT_EQ(ranks.Router(1).stats().waiting, 0u);
  Bytes other_output(400);
  CollectiveCall other = calls[1];
  other.input = inputs[1];
  other.output = absl::MakeSpan(other_output);
  Event other_done;
  ranks.Of(1).Start(other, [&](absl::Status) { other_done.Notify(); });
  ASSERT_TRUE(ranks.waiter().Wait(done, absl::Seconds(5)));
  ASSERT_TRUE(ranks.waiter().Wait(other_done, absl::Seconds(5)));
  EXPECT_EQ(Difference(DType::kFloat32, output, Wanted(calls, inputs)[0]), "");
}

// Groups of an earlier coordinator: a process that came later never makes them.
TEST(LaneFaults, CallsForGroupsOfAnotherNameDoNotWait) {
  auto world = std::make_shared<SimLaneWorld>(5, 2);
  LaneGroupSpec spec;
  spec.size = 2;
  LaneRanks ranks(world, spec);
  world->world().RunFor(absl::Seconds(1));
  const auto other = MakeWireLanes(world->TransportOf(0), {{"others", 1}, 0, ranks.addresses()});
  int refused = 0;
  const auto send = [&] {
    CollectiveFrame frame;
    frame.call = "a call";
    other->Send(1, frame, [&](absl::Status status) {
      EXPECT_EQ(ClassOf(status), proto::STALE) << status;
      ++refused;
    });
    world->world().RunFor(absl::Seconds(1));
  };
  send();
  EXPECT_EQ(refused, 0) << "it may be made yet";
  ranks.Router(1).Only("workers");
  world->world().RunFor(absl::Seconds(1));
  EXPECT_EQ(refused, 1);
  send();
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(ranks.Router(1).stats().waiting, 0u);
  ExpectRight(ranks, CallsOf(2, SumOf(100, A::kAuto)), 1, Place::kApart, "this group goes on");
}

TEST(LaneFaults, CallAfterARankHasLeft) {
  auto world = std::make_shared<SimLaneWorld>(5, 3);
  LaneRanks ranks(world, {3, 1, {}, {}});
  ExpectRight(ranks, CallsOf(3, SumOf(100, A::kAuto)), 1, Place::kApart, "before");
  const auto calls = CallsOf(3, SumOf(100, A::kAuto));
  GroupRun run(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
  ranks.Leave(2);
  world->world().RunFor(absl::Seconds(1));
  run.Start(0);
  run.Start(1);
  ASSERT_TRUE(run.Wait());
  GroupResult result = run.Result();
  result.statuses.pop_back();
  ExpectOneCause(result, absl::StatusCode::kFailedPrecondition,
                 "rank 2 has left the group after 1 calls and does not take part in call 1, "
                 "all-reduce sum float32[100] 'w'");
}

// What tells the others of the abort may overtake the abort's cause. An abort that looks like an
// orderly end would be the error of the step, which is final, and not one to begin again after.
TEST(LaneFaults, ARankThatAbortsAndLeavesAtOnceHasNotLeftInOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto world = std::make_shared<SimLaneWorld>(seed, 3);
    LaneRanks ranks(world, {3, 1, {}, {}});
    const auto calls = CallsOf(3, SumOf(100, A::kAuto));
    GroupRun run(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
    run.Start(0);
    run.Start(1);
    world->world().RunFor(absl::Seconds(1));
    ranks.Of(2).Abort(MakeError(absl::StatusCode::kAborted, "begun again", proto::TRANSIENT));
    ranks.Leave(2);
    ASSERT_TRUE(run.Wait());
    // Both ranks may know only that rank 2 has aborted, when it can no longer say why.
    const std::vector<absl::Status> statuses = run.Result().statuses;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(statuses[rank].code(), absl::StatusCode::kAborted) << statuses[rank];
      EXPECT_EQ(ClassOf(statuses[rank]), proto::TRANSIENT) << statuses[rank];
    }
  }
}

// Keeps the hellos of a rank until they are let go. Lives on the test's thread.
class LateHellos final : public PassingLinks {
 public:
  using PassingLinks::PassingLinks;

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    if (frame.tag != kHelloTag) {
      return PassingLinks::Send(to, std::move(frame), std::move(consumed));
    }
    held_.push_back([this, to, frame = std::move(frame), consumed = std::move(consumed)]() mutable {
      PassingLinks::Send(to, std::move(frame), std::move(consumed));
    });
  }
  size_t held() const { return held_.size(); }
  void LetGo() {
    for (auto& send : held_) send();
    held_.clear();
  }

 private:
  std::vector<absl::AnyInvocable<void()>> held_;
};

// The root sends nothing but a hello, to a rank that has given its part by then and left.
TEST(LaneFaults, AHelloToARankThatIsDoneAndHasLeftSaysNothing) {
  auto world = std::make_shared<SimLaneWorld>(3, 3);
  LateHellos* links = nullptr;
  LaneGroupSpec spec;
  spec.size = 3;
  spec.wrap = [&links](int rank, std::unique_ptr<PeerLinks> inner) -> std::unique_ptr<PeerLinks> {
    if (rank != 0) return inner;
    auto late = std::make_unique<LateHellos>(std::move(inner));
    links = late.get();
    return late;
  };
  LaneRanks ranks(world, spec);
  CollectiveCall call;
  call.op = CollectiveOp::kReduce;
  call.count = 4;
  call.root = 0;
  const auto calls = CallsOf(3, call);
  GroupRun run(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
  run.Start(0);
  run.Start(1);
  world->Rest();
  ASSERT_EQ(links->held(), 1u);
  ranks.Leave(1);
  world->Rest();
  links->LetGo();
  world->Rest();
  run.Start(2);
  ASSERT_TRUE(run.Wait());
  for (const absl::Status& status : run.Result().statuses) EXPECT_TRUE(status.ok()) << status;
}

TEST(LaneFaults, StallIsLoggedWithWhoIsMissing) {
  auto world = std::make_shared<SimLaneWorld>(5, 3);
  LaneGroupSpec spec;
  spec.size = 3;
  spec.stall_after = absl::Seconds(10);
  LaneRanks ranks(world, spec);
  ExpectRight(ranks, CallsOf(3, SumOf(100, A::kAuto)), 1, Place::kApart, "before");
  const auto calls = CallsOf(3, SumOf(100, A::kRing));
  GroupRun run(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
  run.Start(0);
  run.Start(2);
  testing::internal::CaptureStderr();
  world->world().RunFor(absl::Seconds(25));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("collective_stall"));
  EXPECT_THAT(log, HasSubstr("call=\"1, all-reduce sum float32[100] by ring 'w'\""));
  EXPECT_THAT(log,
              HasSubstr("not_started_by=\"rank 1 (last done there: call 0, all-reduce 'w')\""));
  EXPECT_FALSE(absl::StrContains(log, "rank 2 (last")) << log;
  run.Start(1);
  ASSERT_TRUE(run.Wait());
  for (const absl::Status& status : run.Result().statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(ranks.Lane(0).recorder()->Newest(1),
              HasSubstr("1 all-reduce 'w' 400 float32 ring done"));
}

}  // namespace
}  // namespace cohort
