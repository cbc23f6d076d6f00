#pragma once

// The arithmetic of reductions. The order of every sum is one balanced binary tree over the ranks.
// The tree of n operands joins the tree of the first m operands with the tree of the other n - m,
// where m is the largest power of two below n. So 4 ranks are summed as ((r0+r1)+(r2+r3)), 3 ranks
// as ((r0+r1)+r2), and 7 ranks as (((r0+r1)+(r2+r3))+((r4+r5)+r6)). The ranks from k*2^j up to
// (k+1)*2^j are always a whole subtree. So a host with such a block of ranks can sum its block on
// its own, and the exchanges of recursive doubling are the levels of the tree: all algorithms that
// sum by the tree get the same bits.
//
// 16-bit floats are summed in float32 and rounded once, at the end; partial sums travel as float32.
// A mean is the sum divided once by the number of ranks, before it is rounded.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/collective/collective_call.h"

namespace cohort {

// Returns the type of partial sums: float32 for 16-bit floats, else `dtype` itself.
DType AccumulatorOf(DType dtype);

// The elements of one operand: in the accumulator type if `partial`, else in the reduction's type.
// The address need not be aligned.
struct Operand {
  const std::byte* data = nullptr;
  bool partial = false;
};

struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// The place of the results: in the accumulator type if `partial`, else final results in the
// reduction's type. The address need not be aligned.
struct Result {
  std::byte* data = nullptr;
  bool partial = false;
  // Divisor of each result: the number of ranks for the final result of a mean, else 1.
  int64_t divisor = 1;
};

// Computes, for each i below `count`, the combination of operands[0][i], operands[1][i] and so on
// in the order of the tree, into result[i]. There is at least one operand. The result may lie
// exactly where an operand with the same element size lies; otherwise it overlaps no operand.
void CombineTree(const Reduction& reduction, absl::Span<const Operand> operands, size_t count,
                 const Result& result);

}  // namespace cohort
