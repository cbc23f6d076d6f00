#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/inprocess_transport.h"
#include "tests/support/test_seed.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "tests/unit/worker/collective/over_tcp.h"
#include "worker/collective/lanes/frame_bytes.h"

namespace cohort {
namespace {

using A = CollectiveAlgorithm;

const std::vector<A> kFlatAlgorithms = {A::kAuto, A::kOneShot, A::kTwoShot, A::kRecursiveDoubling,
                                        A::kRing, A::kTree,    A::kChain};

std::unique_ptr<GroupUnderTest> SimGroup(uint64_t seed, const LaneGroupSpec& spec,
                                         const FaultPlan& faults) {
  auto world = std::make_shared<SimLaneWorld>(seed, spec.size);
  world->network().SetFaults(faults);
  return std::make_unique<LaneRanks>(std::move(world), spec);
}

Implementation Simulated(uint64_t seed) {
  return {absl::StrCat("simulated, seed ", seed),
          [seed](int size) {
            return SimGroup(seed, {size, 1, {}, {}}, {});
          },
          kFlatAlgorithms};
}

std::unique_ptr<Transport> InProcess(Clock& clock, Executor& executor) {
  return std::make_unique<InProcessTransport>(clock, executor);
}

Implementation Threads(const std::string& name, ThreadLaneWorld::MakeTransport make,
                       const std::string& address) {
  return {name,
          [make, address](int size) {
            LaneGroupSpec spec;
            spec.size = size;
            return std::make_unique<LaneRanks>(std::make_shared<ThreadLaneWorld>(make, address),
                                               spec);
          },
          kFlatAlgorithms};
}

TEST(LaneConformance, Simulated) { CheckAll(Simulated(1)); }

// Chunks, where their sums start and in which order they go on: ring_reference.cc.
TEST(LaneConformance, RingSumsInTheOrderOfTensorFlowsRing) {
  Implementation ring = Simulated(2);
  ring.algorithms = {A::kRing};
  CheckReductions(ring);
  CheckLong(ring);
}

TEST(LaneConformance, PartsOfUnequalSizes) { CheckUnequalParts(Simulated(3)); }

TEST(LaneConformance, DifferentCallsEndTheGroupWithBothInWords) { CheckMismatch(Simulated(4)); }

TEST(LaneConformance, AbortsReachAllRanks) {
  CheckAbort(Simulated(5));
  for (uint64_t seed = 1; seed <= 50; ++seed) CheckAbortsTogether(Simulated(seed));
}

TEST(LaneConformance, CallsThatTakeTooLongNameWhoIsMissing) { CheckTimeout(Simulated(6)); }

// Sends each frame twice, from memory of its own: the second may be read when the first has brought
// its rank so far that the caller's memory changes. Thread-safe.
class TwiceLanes final : public PassingLinks {
 public:
  using PassingLinks::PassingLinks;

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    const size_t bytes = PayloadBytes(frame.payload);
    auto memory = Buffer::Allocate(bytes);
    CopyPayload(frame.payload, bytes, memory->data());
    frame.payload = {{memory, memory->data(), bytes}};
    PassingLinks::Send(to, frame, [](absl::Status) {});
    PassingLinks::Send(to, std::move(frame), std::move(consumed));
  }
};

// Frames overtake each other, and come twice.
TEST(LaneConformance, DelayedAndTwice) {
  const uint64_t first = TestSeed(100);
  for (uint64_t seed = first; seed < first + 10; ++seed) {
    SCOPED_TRACE(Replay("collective_test", seed, "LaneConformance.DelayedAndTwice"));
    FaultPlan faults;
    faults.delay = 0.5;
    faults.delay_max = absl::Milliseconds(20);
    Implementation delayed = {
        "delayed",
        [seed, faults](int size) {
          LaneGroupSpec spec;
          spec.size = size;
          spec.wrap = [](int, std::unique_ptr<PeerLinks> links) -> std::unique_ptr<PeerLinks> {
            return std::make_unique<TwiceLanes>(std::move(links));
          };
          return SimGroup(seed, spec, faults);
        },
        kFlatAlgorithms};
    delayed.many_ranks = seed % 10 == 0;
    CheckUnequalParts(delayed);
    CheckRoots(delayed);
    CheckManyAtOnce(delayed);
    CheckBarrier(delayed);
    CheckSpecialValues(delayed);
    CheckAbort(delayed);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(LaneConformance, HierarchicalOnHostsOfTwoAndFour) {
  for (const int block : {2, 4}) {
    Implementation hosts = {absl::StrCat("hosts of ", block),
                            [block](int size) {
                              LaneGroupSpec spec;
                              spec.size = size;
                              spec.hosts = HostsOf(size, block);
                              return SimGroup(3, spec, {});
                            },
                            {A::kHierarchical}};
    hosts.ranks_min = block + 1;
    CheckReductions(hosts);
    CheckLong(hosts);
    if (HasFatalFailure()) return;
  }
}

TEST(LaneConformance, InProcessTransport) {
  CheckAll(Threads("in-process transport", InProcess, "local:0"));
}

#ifndef __SANITIZE_THREAD__  // does not see the locks of Debian's gRPC
std::unique_ptr<Transport> Grpc(Clock& clock, Executor& executor) {
  return std::make_unique<GrpcTransport>();
}

TEST(LaneConformance, Grpc) { CheckAll(Threads("gRPC", Grpc, "127.0.0.1:0")); }

// Received where it was sent from, which ThreadSanitizer misjudges (frame_places_test.cc).
TEST(LaneConformance, TcpFrames) { CheckAll(Threads("TCP", OverTcp, "127.0.0.1:0")); }
#endif

}  // namespace
}  // namespace cohort
