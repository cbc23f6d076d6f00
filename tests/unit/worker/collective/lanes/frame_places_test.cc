// Frames that are received in the caller's output.

#include "worker/collective/lanes/frame_places.h"

#include <gtest/gtest.h>

#include "proto/collective.pb.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "tests/unit/worker/collective/over_tcp.h"
#include "worker/collective/plan/segments.h"

namespace cohort {
namespace {

CollectiveCall SumOf(int64_t count) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.count = count;
  call.name = "w";
  return call;
}

// A place in memory that was sent from before is written when what was sent has come back through
// the peers. Where they are of one process, ThreadSanitizer sees the write, and not that it is
// behind: it takes a sendmsg to read its bytes when it returns.
#ifdef __SANITIZE_THREAD__
constexpr bool kSentFromPlaces = false;
#else
constexpr bool kSentFromPlaces = true;
#endif

// Half of a ring's frames bring sums on their way, the other half what is final.
TEST(FramePlaces, WhatIsFinalIsReceivedInTheCallersOutput) {
  LaneGroupSpec spec;
  spec.size = 3;
  LaneRanks ranks(std::make_shared<ThreadLaneWorld>(OverTcp, "127.0.0.1:0"), spec);
  CollectiveCall call = SumOf(3 * 100'000);
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTwoShot}) {
    if (algorithm == CollectiveAlgorithm::kRing && !kSentFromPlaces) continue;
    // Often, because a frame that comes before its call is started here has no place yet.
    for (int again = 0; again < 20; ++again) {
      call.algorithm = algorithm;
      const bool in_place = again % 2 == 0 && kSentFromPlaces;
      ExpectRight(ranks, CallsOf(3, call), 1, in_place ? Place::kInPlace : Place::kApart,
                  std::string(AlgorithmName(algorithm)));
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    const LaneCounters counters = ranks.Lane(rank).counters();
    EXPECT_GT(counters.frames_in_place, counters.frames_sent / 4);
    EXPECT_LE(counters.frames_in_place, counters.frames_sent / 2);
  }
}

// Keeps what is sent on of what was received. Thread-safe.
class KeepingLanes final : public PassingLinks {
 public:
  KeepingLanes(std::unique_ptr<PeerLinks> links, std::vector<Payload>& kept)
      : PassingLinks(std::move(links)), kept_(kept) {}
  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    if (frame.tag == Tag(Phase::kGather, 2)) kept_.push_back(frame.payload);
    PassingLinks::Send(to, std::move(frame), std::move(consumed));
  }

 private:
  std::vector<Payload>& kept_;  // of the test's thread, which is the simulation's
};

// What a ring's rank sends on lies in its caller's output, which is not the caller's before it has
// been sent.
TEST(FramePlaces, WhatIsSentOnKeepsTheCallersMemory) {
  std::vector<Payload> kept;
  LaneGroupSpec spec;
  spec.size = 3;
  spec.wrap = [&kept](int rank, std::unique_ptr<PeerLinks> links) -> std::unique_ptr<PeerLinks> {
    if (rank != 2) return links;
    return std::make_unique<KeepingLanes>(std::move(links), kept);
  };
  auto world = std::make_shared<SimLaneWorld>(5, 3);
  LaneRanks ranks(world, spec);
  CollectiveCall call = SumOf(3000);
  call.algorithm = CollectiveAlgorithm::kRing;
  const std::vector<CollectiveCall> calls = CallsOf(3, call);
  const std::vector<Bytes> inputs = RandomInputs(calls, 3);
  int in_place = 0;
  for (int again = 0; again < 10; ++again) {
    std::vector<Bytes> outputs(3, Bytes(12000));
    Event done[3];
    for (size_t rank = 0; rank < 3; ++rank) {
      call.input = inputs[rank];
      call.output = absl::MakeSpan(outputs[rank]);
      ranks.Of(static_cast<int>(rank)).Start(call, [&done, rank](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        done[rank].Notify();
      });
    }
    world->world().RunFor(absl::Seconds(1));
    ASSERT_EQ(kept.size(), 1u);
    const std::byte* const sent = kept[0].at(0).data;
    const bool of_caller =
        sent >= outputs[2].data() && sent < outputs[2].data() + outputs[2].size();
    EXPECT_EQ(done[2].HasHappened(), !of_caller);
    in_place += of_caller ? 1 : 0;
    kept.clear();
    for (const Event& one : done) ASSERT_TRUE(ranks.waiter().Wait(one, absl::Seconds(5)));
  }
  EXPECT_GT(in_place, 0) << "the simulated transport receives every second request in its place";
}

// A peer that stands still in the middle of a frame does not keep the caller's memory.
TEST(FramePlaces, AnAbortTakesBackThePlaceOfAFrameThatStillComes) {
  auto world = std::make_shared<SimLaneWorld>(5, 2);
  LaneRanks ranks(world, LaneGroupSpec{2, 1, {}, {}});
  CollectiveCall call = SumOf(1024);
  call.algorithm = CollectiveAlgorithm::kTwoShot;
  const auto calls = CallsOf(2, call);
  GroupRun run(ranks, calls, RandomInputs(calls, 3), Place::kApart, 0);
  run.Start(0);
  world->world().RunFor(absl::Seconds(1));
  const FindPlace find_place = ranks.Router(0).MakeService().places.at("Deliver");
  const auto place_of = [&](uint64_t fingerprint, size_t bytes) {
    proto::DeliverRequest frame;
    frame.mutable_from()->set_generation(1);
    frame.mutable_from()->set_group(GroupHash({"workers", 1}));
    frame.mutable_from()->set_rank(1);
    frame.set_fingerprint(fingerprint);
    frame.set_tag(Tag(Phase::kGather, 0));
    return find_place(frame.SerializeAsString(), bytes);
  };
  const uint64_t fingerprint = FingerprintOf(calls[0]);
  EXPECT_EQ(place_of(fingerprint, 2044), nullptr) << "another size";
  EXPECT_EQ(place_of(fingerprint + 1, 2048), nullptr) << "another call";
  const std::shared_ptr<ReceivePlace> place = place_of(fingerprint, 2048);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(place_of(fingerprint, 2048), nullptr) << "it is taken";
  EXPECT_TRUE(place->Use([](absl::Span<std::byte> memory) { memory[0] = std::byte{1}; }));
  ranks.Of(0).Abort(absl::CancelledError("enough"));
  ASSERT_TRUE(run.Wait());
  EXPECT_FALSE(place->Use([](absl::Span<std::byte>) { FAIL() << "the memory is the caller's"; }));
  EXPECT_EQ(place_of(fingerprint, 2048), nullptr) << "the call is over";
}

}  // namespace
}  // namespace cohort
