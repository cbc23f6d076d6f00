#include "tests/unit/worker/collective/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/conformance/reference.h"

namespace cohort {

namespace {

using A = CollectiveAlgorithm;

int RanksMax(const Implementation& implementation) {
  return std::min(implementation.ranks_max, implementation.many_ranks ? 8 : 4);
}

// The algorithms to ask for of an operation.
std::vector<A> AlgorithmsOf(const Implementation& implementation, CollectiveOp op) {
  std::vector<A> algorithms;
  for (const A algorithm : implementation.algorithms) {
    if (Offers(op, algorithm)) algorithms.push_back(algorithm);
  }
  if (algorithms.empty()) algorithms.push_back(A::kAuto);
  return algorithms;
}

CollectiveCall CallOf(CollectiveOp op, DType dtype, ReduceOp reduce, int64_t count) {
  CollectiveCall call;
  call.op = op;
  call.dtype = dtype;
  call.reduce = reduce;
  call.count = count;
  call.name = "values";
  return call;
}

constexpr int64_t kLong = 1045991;
constexpr int64_t kSegments = 70001;  // elements, which go in several frames
constexpr int64_t kLengths[] = {0, 1, 2, 1001, 4096, kSegments};

struct Kind {
  DType dtype;
  ReduceOp reduce;
};

// Where both are zero, `wanted` has the sign of `got`.
void TakeSignsOfZeros(DType dtype, const Bytes& got, Bytes& wanted) {
  const Values a = FromBytes(dtype, got);
  Values b = FromBytes(dtype, wanted);
  for (size_t i = 0; i < b.floats.size(); ++i) {
    if (a.floats[i] == 0 && b.floats[i] == 0) b.floats[i] = a.floats[i];
  }
  wanted = ToBytes(dtype, b);
}

// Of all kinds of reduction one, drawn.
Kind KindOfTurn(uint64_t turn) {
  std::vector<Kind> kinds;
  for (const DType dtype : kReducedTypes) {
    for (const ReduceOp reduce : kReduceOps) {
      if (Defined(dtype, reduce)) kinds.push_back({dtype, reduce});
    }
  }
  return kinds[Mix64(turn) % kinds.size()];
}

}  // namespace

void CheckReductions(const Implementation& implementation) {
  uint64_t seed = 1;
  for (int size = implementation.ranks_min; size <= RanksMax(implementation); ++size) {
    const auto group = implementation.make(size);
    for (const A algorithm : AlgorithmsOf(implementation, CollectiveOp::kAllReduce)) {
      for (const DType dtype : kReducedTypes) {
        for (const ReduceOp reduce : kReduceOps) {
          if (!Defined(dtype, reduce)) continue;
          for (const int64_t count : {0, 1, 2, 1001, 4096}) {
            CollectiveCall call = CallOf(CollectiveOp::kAllReduce, dtype, reduce, count);
            call.algorithm = algorithm;
            const Place place = ++seed % 3 == 0 ? Place::kInPlace : Place::kApart;
            ExpectRight(*group, CallsOf(size, call), seed, place, implementation.name);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

void CheckOneAllReduce(GroupUnderTest& group, int size, DType dtype, int64_t count, A algorithm) {
  CollectiveCall call = CallOf(CollectiveOp::kAllReduce, dtype, ReduceOp::kSum, count);
  call.algorithm = algorithm;
  for (const Place place : {Place::kApart, Place::kInPlace}) {
    ExpectRight(group, CallsOf(size, call), static_cast<uint64_t>(count), place, "one sum");
    if (testing::Test::HasFatalFailure()) return;
  }
}

void CheckLong(const Implementation& implementation) {
  uint64_t turn = 0;
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllGather,
        CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kAllToAll}) {
    for (const A algorithm : AlgorithmsOf(implementation, op)) {
      const size_t times = op == CollectiveOp::kAllReduce ? std::size(kReducedTypes) : 1;
      for (size_t i = 0; i < times; ++i) {
        const DType dtype = kReducedTypes[++turn % std::size(kReducedTypes)];
        const int size = std::max(2, implementation.ranks_min) + static_cast<int>(turn % 3);
        ReduceOp reduce = kReduceOps[turn % std::size(kReduceOps)];
        if (!Defined(dtype, reduce)) reduce = ReduceOp::kProd;
        CollectiveCall call = CallOf(op, dtype, reduce, kLong);
        call.root = size - 1;
        call.algorithm = algorithm;
        const Place place = turn % 2 == 0 ? Place::kInPlace : Place::kApart;
        const auto group = implementation.make(size);
        ExpectRight(*group, WithParts(size, call, kLong), turn, place, implementation.name);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

void CheckRoots(const Implementation& implementation) {
  uint64_t turn = 0;
  for (int size = 1; size <= RanksMax(implementation); ++size) {
    const auto group = implementation.make(size);
    for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
      for (const A algorithm : AlgorithmsOf(implementation, op)) {
        for (int root = 0; root < size; ++root) {
          for (const int64_t count : kLengths) {
            if (count == kSegments && root != size / 2) continue;
            const Kind kind = KindOfTurn(++turn);
            CollectiveCall call = CallOf(op, kind.dtype, kind.reduce, count);
            call.root = root;
            call.algorithm = algorithm;
            const Place place = turn % 2 == 1 ? Place::kInPlace : Place::kApart;
            ExpectRight(*group, CallsOf(size, call), turn, place, implementation.name);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

void CheckUnequalParts(const Implementation& implementation) {
  uint64_t turn = 0;
  for (int size = 1; size <= RanksMax(implementation); ++size) {
    const auto group = implementation.make(size);
    for (const CollectiveOp op :
         {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather, CollectiveOp::kAllToAll}) {
      for (const A algorithm : AlgorithmsOf(implementation, op)) {
        for (const int64_t longest : kLengths) {
          const Kind kind = KindOfTurn(++turn);
          CollectiveCall call = CallOf(op, kind.dtype, kind.reduce, 0);
          call.algorithm = algorithm;
          const Place place = turn % 2 == 1 ? Place::kInPlace : Place::kApart;
          ExpectRight(*group, WithParts(size, call, longest), turn, place, implementation.name);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

void CheckBarrier(const Implementation& implementation) {
  for (int size = 1; size <= RanksMax(implementation); ++size) {
    const auto group = implementation.make(size);
    GroupRun run(*group,
                 CallsOf(size, CallOf(CollectiveOp::kBarrier, DType::kFloat32, ReduceOp::kSum, 0)),
                 std::vector<Bytes>(static_cast<size_t>(size)), Place::kApart, 0);
    for (int rank = 1; rank < size; ++rank) run.Start(rank);
    const Event never;
    if (size > 1) group->waiter().Wait(never, absl::Milliseconds(10));
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_FALSE(run.IsDone(rank)) << implementation.name << ", rank " << rank << " of " << size;
    }
    run.Start(0);
    ASSERT_TRUE(run.Wait());
    for (const absl::Status& status : run.Result().statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

void CheckManyAtOnce(const Implementation& implementation) {
  constexpr int kCalls = 20;
  const int size = implementation.many_ranks ? 5 : 3;
  const auto group = implementation.make(size);
  std::vector<std::unique_ptr<GroupRun>> runs;
  std::vector<std::vector<Bytes>> wanted;
  for (int i = 0; i < kCalls; ++i) {
    const auto op = i % 4 == 3 ? CollectiveOp::kBroadcast : CollectiveOp::kAllReduce;
    CollectiveCall call = CallOf(op, DType::kFloat32, ReduceOp::kSum, 1 + i * i * 97);
    call.name = absl::StrCat("bucket ", i);
    const std::vector<CollectiveCall> calls = CallsOf(size, call);
    const std::vector<Bytes> inputs = InputsFor(group->draw(), calls, static_cast<uint64_t>(i));
    wanted.push_back(Wanted(calls, inputs));
    runs.push_back(std::make_unique<GroupRun>(*group, calls, inputs, Place::kInPlace, i));
  }
  // Each rank starts all of its own before the next rank starts any.
  for (int rank = size - 1; rank >= 0; --rank) {
    for (const auto& run : runs) run->Start(rank);
  }
  for (int i = 0; i < kCalls; ++i) {
    const auto call = static_cast<size_t>(i);
    ASSERT_TRUE(runs[call]->Wait());
    const GroupResult result = runs[call]->Result();
    for (size_t r = 0; r < result.outputs.size(); ++r) {
      ASSERT_TRUE(result.statuses[r].ok()) << result.statuses[r];
      ASSERT_EQ(Difference(DType::kFloat32, result.outputs[r], wanted[call][r]), "")
          << implementation.name << ", call " << i << ", rank " << r;
    }
  }
}

void CheckSpecialValues(const Implementation& implementation) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  const std::vector<std::vector<double>> columns = {{nan, 1, 2},
                                                    {1, nan, 2},
                                                    {1, 2, nan},
                                                    {inf, -inf, 1},
                                                    {inf, 1, 1},
                                                    {-0.0, -0.0, -0.0},
                                                    {-0.0, 0.0, -0.0},
                                                    {65504, 65504, 65504},  // the largest float16
                                                    {0x1p-24, 0x1p-24, -0x1p-24},  // the smallest
                                                    {0x1p-26, 0x1p-26, 0x1p-26},
                                                    {1, 0x1p-11, 0x1p-11}};
  const auto group = implementation.make(3);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16}) {
    std::vector<Values> ranks(3);
    for (const std::vector<double>& column : columns) {
      for (size_t r = 0; r < 3; ++r) ranks[r].floats.push_back(RoundTo(dtype, column[r]));
    }
    std::vector<Bytes> inputs;
    for (const Values& values : ranks) inputs.push_back(ToBytes(dtype, values));
    for (const ReduceOp reduce : kReduceOps) {
      const bool any_zero = !implementation.zeros_of_the_tree &&
                            (reduce == ReduceOp::kMin || reduce == ReduceOp::kMax);
      for (const A algorithm : AlgorithmsOf(implementation, CollectiveOp::kAllReduce)) {
        CollectiveCall call =
            CallOf(CollectiveOp::kAllReduce, dtype, reduce, static_cast<int64_t>(columns.size()));
        call.algorithm = algorithm;
        const auto calls = CallsOf(3, call);
        const GroupResult result = RunGroup(*group, calls, inputs, Place::kApart, 0);
        std::vector<Bytes> wanted = Wanted(calls, inputs);
        for (size_t r = 0; r < 3; ++r) {
          ASSERT_TRUE(result.statuses[r].ok()) << result.statuses[r];
          if (any_zero) TakeSignsOfZeros(dtype, result.outputs[r], wanted[r]);
          ASSERT_EQ(Difference(dtype, result.outputs[r], wanted[r]), "") << DescribeCall(call);
          ASSERT_EQ(result.outputs[r], result.outputs[0]) << "the ranks differ in a NaN's digits";
        }
      }
    }
  }
}

}  // namespace cohort
