#include "worker/collective/reduce_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/conformance/reference.h"

namespace cohort {
namespace {

// Outside expectation of the order: sums in which every other order rounds differently.
TEST(ReduceTree, OrderIsTheBalancedTree) {
  const auto sum = [](std::vector<float> values) {
    std::vector<Operand> operands;
    for (const float& value : values) {
      operands.push_back({reinterpret_cast<const std::byte*>(&value), false});
    }
    float result = 0;
    CombineTree({DType::kFloat32, ReduceOp::kSum}, operands, 1,
                {reinterpret_cast<std::byte*>(&result), false, 1});
    return result;
  };
  const float big = 16777216;                     // 2^24: adding 1 alone is lost, adding 2 is not
  EXPECT_EQ(sum({big, 1, 1, 1}), big + 2);        // (big+1)+(1+1)
  EXPECT_EQ(sum({1, 1, big, 1}), big + 2);        // (1+1)+(big+1)
  EXPECT_EQ(sum({big, 1, 1}), big);               // (big+1)+1
  EXPECT_EQ(sum({1, 1, big}), big + 2);           // (1+1)+big
  EXPECT_EQ(sum({1, 1, big, 1, 1}), big + 4);     // ((1+1)+(big+1))+1: 3 to even
  EXPECT_EQ(sum({big, 1, 1, 1, 1}), big + 4);     // ((big+1)+(1+1))+1: 3 to even
  EXPECT_EQ(sum({1, 1, 1, 1, big}), big + 4);     // ((1+1)+(1+1))+big
  EXPECT_EQ(sum({big, 1, 1, 1, 1, 1}), big + 4);  // ((big+1)+(1+1))+(1+1)
  EXPECT_EQ(sum({big, 1, 1, 1, 1, 1, 1}), big + 4);  // ... +((1+1)+1): 5 to even
}

TEST(ReduceTree, AnyLengthAddressTypeAndNumberOfRanks) {
  uint64_t seed = 1;
  for (const DType dtype : kReducedTypes) {
    for (const ReduceOp reduce : kReduceOps) {
      if (!Defined(dtype, reduce)) continue;
      for (const size_t ranks : {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}) {
        for (const int64_t count : {1, 63, 64, 65, 1023, 1025}) {
          ++seed;
          const size_t shift = seed % 4;  // not aligned to the element
          std::vector<Bytes> inputs;
          std::vector<Bytes> shifted;
          for (size_t r = 0; r < ranks; ++r) {
            inputs.push_back(RandomInput(dtype, reduce, count, seed * 64 + r));
            shifted.emplace_back(shift);
            shifted.back().insert(shifted.back().end(), inputs[r].begin(), inputs[r].end());
          }
          CollectiveCall call;
          call.op = CollectiveOp::kAllReduce;
          call.dtype = dtype;
          call.reduce = reduce;
          call.count = count;
          const Bytes wanted = ExpectedOutputs(CallsOf(static_cast<int>(ranks), call), inputs)[0];
          std::vector<Operand> operands;
          for (const Bytes& bytes : shifted) operands.push_back({bytes.data() + shift, false});
          // In place of one of them.
          Bytes& target = shifted[seed % ranks];
          const int64_t divisor = reduce == ReduceOp::kMean ? static_cast<int64_t>(ranks) : 1;
          CombineTree({dtype, reduce}, operands, static_cast<size_t>(count),
                      {target.data() + shift, false, divisor});
          ASSERT_EQ(
              Difference(dtype, Bytes(target.begin() + static_cast<int64_t>(shift), target.end()),
                         wanted),
              "")
              << DescribeCall(call) << ", " << ranks << " ranks";
        }
      }
    }
  }
}

// Blocks of the tree summed apart and then together.
TEST(ReduceTree, PartialSumsOfBlocksGiveTheSameBits) {
  constexpr int64_t kCount = 3001;
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    const DType wide = AccumulatorOf(dtype);
    for (const size_t block : {2, 4}) {
      for (size_t ranks = block + 1; ranks <= 11; ++ranks) {
        std::vector<Bytes> inputs;
        std::vector<Operand> all;
        for (size_t r = 0; r < ranks; ++r) {
          inputs.push_back(RandomInput(dtype, ReduceOp::kSum, kCount, r + 7));
        }
        for (const Bytes& input : inputs) all.push_back({input.data(), false});
        const size_t bytes = kCount * ElementSize(dtype);
        Bytes at_once(bytes);
        CombineTree({dtype, ReduceOp::kSum}, all, kCount, {at_once.data(), false, 1});
        std::vector<Bytes> sums;
        for (size_t begin = 0; begin < ranks; begin += block) {
          sums.emplace_back(kCount * ElementSize(wide));
          CombineTree({dtype, ReduceOp::kSum}, absl::MakeConstSpan(all).subspan(begin, block),
                      kCount, {sums.back().data(), true, 1});
        }
        std::vector<Operand> partial;
        for (const Bytes& sum : sums) partial.push_back({sum.data(), true});
        Bytes in_blocks(bytes);
        CombineTree({dtype, ReduceOp::kSum}, partial, kCount, {in_blocks.data(), false, 1});
        ASSERT_EQ(in_blocks, at_once) << DTypeName(dtype) << " " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace cohort
