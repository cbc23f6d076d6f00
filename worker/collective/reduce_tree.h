#pragma once

// The arithmetic of collective operations. The order of every sum is one balanced binary tree over
// the ranks: the tree of n operands is the tree of the first m and that of the others, where m is
// the largest power of two below n. So 4 ranks are ((r0+r1)+(r2+r3)), 3 are ((r0+r1)+r2), and 7 are
// (((r0+r1)+(r2+r3))+((r4+r5)+r6)). Ranks k*2^j up to the next such number are always a whole
// subtree, so hosts that hold such blocks may sum on their own, and the exchanges of recursive
// doubling are the tree's levels: whoever sums gets the same bits.
//
// 16-bit floats are summed in float32 and rounded once, at the end; partial sums travel as float32.
// A mean is the sum divided once by the number of ranks, before that rounding.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/collective/collective_call.h"

namespace cohort {

// Returns the type of partial results: float32 for 16-bit floats, else the type itself.
DType AccumulatorOf(DType dtype);

// Elements in the type itself, or in its accumulator. Need not be aligned.
struct Operand {
  const std::byte* data = nullptr;
  bool partial = false;
};

struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// The place of results: partial ones in the accumulator's type, or final ones. Need not be aligned.
struct Result {
  std::byte* data = nullptr;
  bool partial = false;
  int64_t divisor = 1;  // divisor of the final result of a mean: the number of ranks
};

// Computes result[i] = tree over k of operands[k][i], for i below `count`. There is at least one
// operand. The result may lie exactly where an operand of the same element size does, else it
// overlaps none.
void CombineTree(const Reduction& reduction, absl::Span<const Operand> operands, size_t count,
                 const Result& result);

}  // namespace cohort
