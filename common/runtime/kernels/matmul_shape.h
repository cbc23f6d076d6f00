#pragma once

// MatMul's shapes: NumPy's matmul. Operands of rank 2 and more are stacks of matrices whose leading
// axes broadcast; an operand of rank 1 is a row (left) or a column (right) whose axis disappears
// from the result.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/tensor/shape.h"

namespace cohort {

struct MatMulShape {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  Shape result;
  std::vector<BroadcastAxis> batches;  // over the leading axes, strides in matrices
};

// Flags of a product. With a transpose flag the last two axes of that operand, which has rank 2 or
// more, are swapped first.
struct MatMulFlags {
  bool transpose_a = false;
  bool transpose_b = false;
};
absl::StatusOr<MatMulShape> ResolveMatMul(const Shape& a, const Shape& b, const MatMulFlags& flags);

// Gemm's: alpha op(A) op(B) + beta C, matrices only; C broadcasts to the result.
struct GemmParameters {
  float alpha = 1;
  float beta = 1;
  MatMulFlags flags;
};
GemmParameters ParseGemm(AttributeReader& reader);

// Resolves Gemm; `c` may be without value. Errors: INVALID_ARGUMENT for another rank or type, or a
// C that does not broadcast.
absl::StatusOr<MatMulShape> ResolveGemm(const Tensor& a, const Tensor& b, const Tensor& c,
                                        const MatMulFlags& flags);

}  // namespace cohort
