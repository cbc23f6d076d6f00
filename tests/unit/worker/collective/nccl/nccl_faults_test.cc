#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/nccl/nccl_groups.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kSize = 3;

NcclGroupSpec Ranks(int size) {
  NcclGroupSpec spec;
  spec.size = size;
  return spec;
}

CollectiveCall CallOfTurn(int turn) {
  static constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllToAll,
                                          CollectiveOp::kBroadcast, CollectiveOp::kReduceScatter};
  CollectiveCall call;
  call.op = kOps[turn % std::size(kOps)];
  call.count = 3000;  // two pieces
  call.name = absl::StrCat("call ", turn);
  return call;
}

constexpr absl::Duration kTimeout = absl::Hours(1);

// A group whose communicators, but not its control group, find that hours have passed when
// something hangs in NCCL.
class HangingRanks {
 public:
  explicit HangingRanks(NcclGroupSpec spec) : group_(With(std::move(spec))) {}
  FakeNcclRanks& group() { return group_; }

  // How the calls ended.
  GroupResult Run(const std::vector<CollectiveCall>& calls, const std::vector<Bytes>& inputs) {
    GroupRun run(group_, calls, inputs, Place::kApart, 0);
    run.StartAll();
    for (bool leapt = false; !IsDone(run);) {
      const Event never;
      group_.waiter().Wait(never, absl::Milliseconds(1));
      if (leapt || group_.fake().counters().hung == 0) continue;
      clock_.Leap(2 * kTimeout);
      leapt = true;
    }
    return run.Result();
  }

 private:
  NcclGroupSpec With(NcclGroupSpec spec) {
    spec.clock = &clock_;
    return spec;
  }
  static bool IsDone(const GroupRun& run) {
    for (int rank = 0; rank < kSize; ++rank) {
      if (!run.IsDone(rank)) return false;
    }
    return true;
  }

  LeapingClock clock_;
  FakeNcclRanks group_;
};

// Makes calls on all ranks, one after another, until one ends with an error; what ended well before
// has the right bits. Empty when none fails.
std::vector<absl::Status> RunUntilTheEnd(HangingRanks& ranks, absl::Duration timeout) {
  for (int turn = 0; turn < 64; ++turn) {
    CollectiveCall call = CallOfTurn(turn);
    call.timeout = timeout;
    const std::vector<CollectiveCall> calls = WithParts(kSize, call, 3000);
    const std::vector<Bytes> inputs = RandomInputs(calls, static_cast<uint64_t>(turn));
    const GroupResult result = ranks.Run(calls, inputs);
    const std::vector<Bytes> wanted = Wanted(calls, inputs);
    std::vector<absl::Status> ends;
    for (size_t rank = 0; rank < kSize; ++rank) {
      if (!result.statuses[rank].ok()) {
        ends.push_back(result.statuses[rank]);
        continue;
      }
      EXPECT_EQ(Difference(call.dtype, result.outputs[rank], wanted[rank]), "") << turn;
    }
    if (!ends.empty()) return ends;
  }
  return {};
}

// The group with number `at_group` of one rank's device fails; all ranks say the same.
void CheckFault(FakeNccl::Fault fault, absl::Duration timeout, absl::StatusCode code,
                const std::string& words) {
  for (int failing = 0; failing < kSize; ++failing) {
    for (int at_group = 0; at_group <= 16; ++at_group) {
      SCOPED_TRACE(absl::StrCat("rank ", failing, " fails at ", at_group));
      HangingRanks ranks(Ranks(kSize));
      FakeNcclRanks& group = ranks.group();
      group.fake().SetFault(failing, fault, at_group);
      std::vector<absl::Status> ends = RunUntilTheEnd(ranks, timeout);
      ASSERT_FALSE(ends.empty()) << "nothing has failed";
      // A later call ends with it on every rank.
      const auto later = CallsOf(kSize, CallOfTurn(0));
      const GroupResult result = RunGroup(group, later, RandomInputs(later, 1), Place::kApart, 0);
      for (const absl::Status& status : result.statuses) ends.push_back(status);
      for (const absl::Status& status : ends) {
        EXPECT_EQ(status, ends[0]);
        EXPECT_EQ(status.code(), code) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(words));
      }
      if (code == absl::StatusCode::kUnavailable) {
        EXPECT_THAT(std::string(ends[0].message()),
                    HasSubstr(absl::StrCat("rank ", failing, ", gpu:", failing, ": ")));
      }
      group.ranks().EndAll();
      EXPECT_EQ(group.fake().counters().aborted, kSize);
      EXPECT_EQ(group.fake().counters().destroyed, 0) << "what has failed is aborted";
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclFaults, AnErrorOfNcclEndsAllRanksWithItsWords) {
  CheckFault(FakeNccl::Fault::kError, absl::InfiniteDuration(), absl::StatusCode::kUnavailable,
             "NCCL: a remote process has ended");
}

TEST(NcclFaults, AnErrorOfCudaEndsAllRanksWithItsWords) {
  CheckFault(FakeNccl::Fault::kCopyFails, absl::InfiniteDuration(), absl::StatusCode::kUnavailable,
             ": what runs on the device: CUDA: a copy failed");
}

TEST(NcclFaults, WhatHangsInNcclEndsAtItsTimeout) {
  CheckFault(FakeNccl::Fault::kHang, kTimeout, absl::StatusCode::kDeadlineExceeded,
             "is not done within 1h; all ranks have started it");
}

TEST(NcclFaults, WhatHangsInNcclEndsWithAnAbortOfAnyRank) {
  for (int aborting = 0; aborting < kSize; ++aborting) {
    FakeNcclRanks group(Ranks(kSize));
    group.fake().SetFault(1, FakeNccl::Fault::kHang, 0);
    const auto calls = CallsOf(kSize, CallOfTurn(0));
    GroupRun run(group, calls, RandomInputs(calls, 1), Place::kApart, 0);
    run.StartAll();
    // All are in NCCL, where no call of the control group is under way.
    while (group.fake().counters().groups < kSize) {
      const Event never;
      group.waiter().Wait(never, absl::Milliseconds(1));
    }
    group.Of(aborting).Abort(absl::UnavailableError("worker:7 was lost"));
    ASSERT_TRUE(run.Wait());
    ExpectOneCause(run.Result(), absl::StatusCode::kUnavailable, "worker:7 was lost");
  }
}

TEST(NcclFaults, CallsEndThoughAnAbortOfNcclHangs) {
  NcclGroupSpec spec = Ranks(kSize);
  spec.abort_wait = absl::Milliseconds(50);
  HangingRanks ranks(spec);
  FakeNcclRanks& group = ranks.group();
  group.fake().SetFault(2, FakeNccl::Fault::kAbortHangs, 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunUntilTheEnd(ranks, kTimeout).size(), kSize);
  group.ranks().EndAll();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("event=nccl_abort_hangs group=workers generation=1 rank=2"),
                    HasSubstr("restart this process")));
  EXPECT_GT(group.fake().counters().memories, 0) << "what the device may still write";
  group.fake().EndAll();
  while (group.fake().counters().contexts > 0) {
    const Event never;
    group.waiter().Wait(never, absl::Milliseconds(1));
  }
}

TEST(NcclFaults, StallInNcclIsLogged) {
  NcclGroupSpec spec = Ranks(kSize);
  spec.stall_after = kTimeout;
  HangingRanks ranks(spec);
  ranks.group().fake().SetFault(1, FakeNccl::Fault::kHang, 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunUntilTheEnd(ranks, kTimeout).size(), kSize);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("event=collective_stall group=workers generation=1 rank="),
                    HasSubstr("call=\"2, all-reduce sum float32[3000] 'call 0'\" under_way=2h"),
                    HasSubstr("not_started_by=none")));
}

TEST(NcclFaults, AGroupThatIsWellLeavesNccl) {
  FakeNcclRanks group(Ranks(kSize));
  group.fake().LingerInCalls();
  ExpectRight(group, CallsOf(kSize, CallOfTurn(0)), 1, Place::kApart, "well");
  group.ranks().EndAll();
  const FakeNccl::Counters counters = group.fake().counters();
  EXPECT_EQ(counters.joined, kSize);
  EXPECT_EQ(counters.destroyed, kSize);
  EXPECT_EQ(counters.aborted, 0);
}

// What NCCL would hang in, or give wrong numbers for, never gets there.
TEST(NcclFaults, CallsThatDifferAreNotStartedInNccl) {
  FakeNcclRanks group(Ranks(2));
  CollectiveCall more = CallOfTurn(0);
  more.count = 3001;
  const std::vector<CollectiveCall> calls = {CallOfTurn(0), more};
  const GroupResult result = RunGroup(group, calls, RandomInputs(calls, 1), Place::kApart, 0);
  ExpectOneCause(result, absl::StatusCode::kFailedPrecondition, "float32[3001]");
  CollectiveCall exchange;
  exchange.op = CollectiveOp::kAllToAll;
  FakeNcclRanks pairs(Ranks(2));
  std::vector<CollectiveCall> exchanges = CallsOf(2, exchange);
  exchanges[0].counts = exchanges[0].receive_counts = {1, 2};
  exchanges[1].counts = exchanges[1].receive_counts = {3, 1};
  const GroupResult unequal =
      RunGroup(pairs, exchanges, RandomInputs(exchanges, 1), Place::kApart, 0);
  ExpectOneCause(unequal, absl::StatusCode::kFailedPrecondition, "all-to-all float32");
  EXPECT_EQ(group.fake().counters().groups + pairs.fake().counters().groups, 0);
}

TEST(NcclFaults, RecordsTellWhatNcclDoes) {
  FakeNcclRanks group(Ranks(2));
  ExpectRight(group, CallsOf(2, CallOfTurn(0)), 1, Place::kApart, "recorded");
  group.fake().SetFault(0, FakeNccl::Fault::kError, 2);
  const auto calls = CallsOf(2, CallOfTurn(4));
  RunGroup(group, calls, RandomInputs(calls, 1), Place::kApart, 0);
  const std::vector<FlightRecord> records = group.ranks().Rank(1).recorder()->Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].sequence, NcclCommunicator::kCallsToJoin);
  EXPECT_EQ(records[0].state, FlightRecord::State::kDone);
  EXPECT_EQ(records[1].name, "call 4");
  EXPECT_EQ(records[1].state, FlightRecord::State::kFailed);
}

}  // namespace
}  // namespace cohort
