#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/conformance/conformance.h"

namespace cohort {

namespace {

using testing::AllOf;
using testing::HasSubstr;

CollectiveCall SumOf(int64_t count, const std::string& name) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.count = count;
  call.name = name;
  return call;
}

std::vector<Bytes> InputsFor(const std::vector<CollectiveCall>& calls) {
  return InputsFor(Draw::kExactInAnyOrder, calls, 5);
}

// All ranks have the error; of a rooted operation those may be done that get from and give to none
// but ranks that made the same call.
void ExpectTold(const GroupResult& result, const absl::Status& error, const CollectiveCall& usual) {
  const bool rooted = usual.op == CollectiveOp::kBroadcast || usual.op == CollectiveOp::kReduce;
  size_t told = 0;
  for (const absl::Status& status : result.statuses) {
    if (status == error) ++told;
    EXPECT_TRUE(status == error || (rooted && status.ok())) << status;
  }
  EXPECT_GE(told, 2u) << "nobody but the odd one has the error";
}

}  // namespace

void CheckMismatch(const Implementation& implementation) {
  CollectiveCall broadcast = SumOf(1000, "bias");
  broadcast.op = CollectiveOp::kBroadcast;
  CollectiveCall reduce = SumOf(1000, "bias");
  reduce.op = CollectiveOp::kReduce;
  CollectiveCall longer = SumOf(1001, "dense/kernel");
  CollectiveCall product = SumOf(1000, "dense/kernel");
  product.reduce = ReduceOp::kProd;
  CollectiveCall twice = SumOf(1000, "dense/kernel");
  twice.dtype = DType::kFloat64;
  CollectiveCall other_layout = SumOf(1000, "dense/kernel");
  other_layout.layout = 0xabc;
  CollectiveCall barrier;
  const CollectiveCall common = SumOf(1000, "dense/kernel");
  // One rank makes another call than the rest; and the two that only wait for each other.
  const std::vector<std::pair<CollectiveCall, CollectiveCall>> pairs = {
      {common, broadcast}, {common, reduce},       {common, longer},   {common, product},
      {common, twice},     {common, other_layout}, {common, barrier},  {reduce, broadcast},
      {broadcast, reduce}, {barrier, reduce},      {broadcast, common}};
  const int size = implementation.many_ranks ? 4 : 2;
  for (int odd = 0; odd < size; ++odd) {
    for (const auto& [usual, other] : pairs) {
      const auto group = implementation.make(size);
      // One call that fits comes before.
      const auto before = CallsOf(size, SumOf(3, "before"));
      ExpectRight(*group, before, 1, Place::kApart, implementation.name);
      std::vector<CollectiveCall> calls = CallsOf(size, usual);
      calls[static_cast<size_t>(odd)] = other;
      const GroupResult result = RunGroup(*group, calls, InputsFor(calls), Place::kApart, odd);
      const absl::Status& told = result.statuses[static_cast<size_t>(odd)];
      EXPECT_EQ(told.code(), absl::StatusCode::kFailedPrecondition) << told;
      EXPECT_THAT(std::string(told.message()),
                  AllOf(HasSubstr(DescribeCall(usual)), HasSubstr(DescribeCall(other)),
                        HasSubstr(absl::StrCat("rank ", odd))));
      ExpectTold(result, told, usual);
      const auto later = CallsOf(size, SumOf(5, "later"));
      for (const absl::Status& status :
           RunGroup(*group, later, InputsFor(later), Place::kApart, odd).statuses) {
        EXPECT_EQ(status, told);
      }
    }
  }
}

void CheckRefusedCalls(const Implementation& implementation) {
  struct Refused {
    CollectiveCall call;
    std::string words;
  };
  std::vector<Refused> refused;
  CollectiveCall mean = SumOf(4, "count");
  mean.dtype = DType::kInt32;
  mean.reduce = ReduceOp::kMean;
  refused.push_back({mean, "the mean of int32 would be cut off; reduce with sum"});
  CollectiveCall flags = SumOf(4, "flags");
  flags.dtype = DType::kBool;
  refused.push_back({flags, "dtype bool is not reduced; cast to"});
  CollectiveCall rootless = SumOf(4, "w");
  rootless.op = CollectiveOp::kReduce;
  rootless.root = 2;
  refused.push_back({rootless, "root is 2; give 0 to 1"});
  CollectiveCall short_counts = SumOf(0, "w");
  short_counts.op = CollectiveOp::kAllGather;
  short_counts.counts = {4};
  refused.push_back({short_counts, "counts has 1 numbers and the group 2 ranks"});
  CollectiveCall own_part = SumOf(0, "w");
  own_part.op = CollectiveOp::kAllToAll;
  own_part.counts = {4, 0};
  own_part.receive_counts = {2, 2};  // the third and fourth would lie where rank 1's come
  refused.push_back({own_part, "rank 0 sends 4 elements to itself, and means to receive 2"});
  for (const Refused& one : refused) {
    const auto group = implementation.make(2);
    // Rank 1 makes a call that is right and would wait for ever.
    const auto calls = CallsOf(2, SumOf(4, "right"));
    GroupRun right(*group, calls, InputsFor(calls), Place::kApart, 0);
    right.Start(1);
    Bytes memory(16);
    CollectiveCall call = one.call;
    call.input = memory;
    Bytes output(16);
    call.output = absl::MakeSpan(output);
    Event done;
    absl::Status status;
    group->Of(0).Start(call, [&](absl::Status end) {
      status = std::move(end);
      done.Notify();
    });
    ASSERT_TRUE(group->waiter().Wait(done, absl::Minutes(1))) << one.words;
    ASSERT_TRUE(right.Wait()) << one.words;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.words));
    EXPECT_EQ(right.Result().statuses[1], status);
  }
  const auto group = implementation.make(1);
  CollectiveCall cut = SumOf(4, "cut");
  Bytes memory(15);
  cut.input = memory;
  Event done;
  group->Of(0).Start(cut, [&](absl::Status end) {
    EXPECT_THAT(std::string(end.message()), HasSubstr("input has 15 bytes; give 16"));
    done.Notify();
  });
  ASSERT_TRUE(group->waiter().Wait(done, absl::Minutes(1)));
}

void CheckAbort(const Implementation& implementation) {
  const int size = implementation.many_ranks ? 5 : 3;
  for (int from = 0; from < size; ++from) {
    const auto group = implementation.make(size);
    std::vector<std::unique_ptr<GroupRun>> runs;
    for (int i = 0; i < 3; ++i) {
      const auto calls = CallsOf(size, SumOf(1 + 50000 * i, absl::StrCat("bucket ", i)));
      runs.push_back(std::make_unique<GroupRun>(*group, calls, InputsFor(calls), Place::kApart, i));
      // The last rank never comes.
      for (int rank = 0; rank + 1 < size; ++rank) runs.back()->Start(rank);
    }
    group->Of(from).Abort(absl::UnavailableError("worker:7 was lost"));
    for (const auto& run : runs) {
      ASSERT_TRUE(run->Wait()) << implementation.name;
      GroupResult result = run->Result();
      result.statuses.pop_back();
      ExpectOneCause(result, absl::StatusCode::kUnavailable, "worker:7 was lost");
    }
    group->Of(from).Abort(absl::InternalError("a second cause"));
    const auto calls = CallsOf(size, SumOf(4, "later"));
    GroupRun later(*group, calls, InputsFor(calls), Place::kApart, 0);
    later.StartAll();
    ASSERT_TRUE(later.Wait());
    ExpectOneCause(later.Result(), absl::StatusCode::kUnavailable, "worker:7 was lost");
  }
}

namespace {

constexpr CollectiveOp kAllOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                    CollectiveOp::kBroadcast, CollectiveOp::kAllToAll,
                                    CollectiveOp::kBarrier,   CollectiveOp::kReduceScatter,
                                    CollectiveOp::kReduce};

std::vector<CollectiveCall> CallsOfKind(size_t kind, int size) {
  CollectiveCall call;
  call.op = kAllOps[kind % std::size(kAllOps)];
  call.name = absl::StrCat("call ", kind);
  if (call.op != CollectiveOp::kBarrier) call.count = 301;
  return WithParts(size, call, 301);
}

// Every call is done, with the right bits, or has ended with the cause.
void ExpectRightOr(const GroupResult& result, const std::vector<CollectiveCall>& calls,
                   absl::string_view cause, int failed) {
  const std::vector<Bytes> wanted = Wanted(calls, InputsFor(calls));
  for (size_t r = 0; r < calls.size(); ++r) {
    const absl::Status& status = result.statuses[r];
    if (status.ok() && static_cast<int>(r) != failed) {
      EXPECT_EQ(Difference(calls[r].dtype, result.outputs[r], wanted[r]), "") << "rank " << r;
    } else if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(cause))) << "rank " << r;
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    }
  }
}

// The rank starts so many calls of those that all others start, and fails.
void FailAfterCalls(const Implementation& implementation, int size, int failing, size_t calls_made,
                    size_t calls_of_others) {
  const std::string cause = absl::StrCat("replica ", failing, " failed");
  const auto group = implementation.make(size);
  std::vector<std::vector<CollectiveCall>> calls;
  std::vector<std::unique_ptr<GroupRun>> runs;
  for (size_t i = 0; i <= calls_of_others; ++i) {
    // To the last all ranks give something, so that none is done without the one that failed.
    calls.push_back(CallsOfKind(i < calls_of_others ? i + calls_made : 0, size));
    runs.push_back(std::make_unique<GroupRun>(*group, calls.back(), InputsFor(calls.back()),
                                              Place::kApart, static_cast<int>(i)));
    for (int rank = 0; rank < size && i < calls_of_others; ++rank) {
      if (rank != failing || i < calls_made) runs.back()->Start(rank);
    }
    if (i == calls_made) group->Of(failing).Abort(absl::AbortedError(cause));
  }
  runs.back()->StartAll();
  for (size_t i = 0; i < runs.size(); ++i) {
    ASSERT_TRUE(runs[i]->Wait()) << implementation.name << " hangs";
    ExpectRightOr(runs[i]->Result(), calls[i], cause, i < calls_made ? -1 : failing);
  }
  ExpectOneCause(runs.back()->Result(), absl::StatusCode::kAborted, cause);
}

}  // namespace

void CheckFailureAfterSomeCalls(const Implementation& implementation) {
  constexpr size_t kCallsMax = 16;
  const bool many = implementation.many_ranks;
  for (int size = many ? 2 : 3; size <= (many ? 4 : 3); ++size) {
    for (int failing = 0; failing < size; ++failing) {
      for (size_t calls = 0; calls <= kCallsMax; ++calls) {
        SCOPED_TRACE(absl::StrCat(implementation.name, ": rank ", failing, " of ", size,
                                  " fails after ", calls, " calls"));
        FailAfterCalls(implementation, size, failing, calls, kCallsMax + 1);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

void CheckAbortsTogether(const Implementation& implementation) {
  const int size = implementation.many_ranks ? 6 : 3;
  const auto group = implementation.make(size);
  const auto calls = CallsOf(size, SumOf(5000, "w"));
  GroupRun run(*group, calls, InputsFor(calls), Place::kApart, 0);
  for (int rank = 1; rank < size; ++rank) run.Start(rank);
  for (int rank = size - 1; rank >= 0; --rank) {
    group->Of(rank).Abort(absl::InternalError(absl::StrCat("cause of rank ", rank)));
  }
  run.Start(0);
  ASSERT_TRUE(run.Wait());
  ExpectOneCause(run.Result(), absl::StatusCode::kInternal, "cause of rank ");
}

void CheckTimeout(const Implementation& implementation) {
  const auto group = implementation.make(3);
  ExpectRight(*group, CallsOf(3, SumOf(3, "before")), 1, Place::kApart, implementation.name);
  CollectiveCall call = SumOf(2000, "w");
  call.timeout = absl::Milliseconds(30);
  const auto calls = CallsOf(3, call);
  GroupRun run(*group, calls, InputsFor(calls), Place::kApart, 0);
  run.Start(0);
  run.Start(2);
  ASSERT_TRUE(run.Wait());
  GroupResult result = run.Result();
  result.statuses.erase(result.statuses.begin() + 1);
  ExpectOneCause(result, absl::StatusCode::kDeadlineExceeded,
                 absl::StrCat("call ", implementation.first_call + 1,
                              ", all-reduce sum float32[2000] 'w', is not done within 30ms; not "
                              "started by rank 1 (last done there: call ",
                              implementation.first_call, ", all-reduce 'before')"));
}

void CheckAll(const Implementation& implementation) {
  const std::pair<const char*, void (*)(const Implementation&)> checks[] = {
      {"reductions", CheckReductions},
      {"long", CheckLong},
      {"roots", CheckRoots},
      {"unequal parts", CheckUnequalParts},
      {"barrier", CheckBarrier},
      {"many at once", CheckManyAtOnce},
      {"special values", CheckSpecialValues},
      {"mismatch", CheckMismatch},
      {"refused calls", CheckRefusedCalls},
      {"abort", CheckAbort},
      {"failure after some calls", CheckFailureAfterSomeCalls},
      {"aborts together", CheckAbortsTogether},
      {"timeout", CheckTimeout}};
  for (const auto& [name, check] : checks) {
    SCOPED_TRACE(absl::StrCat(implementation.name, ": ", name));
    check(implementation);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace cohort
