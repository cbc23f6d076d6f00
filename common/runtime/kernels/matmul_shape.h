#pragma once

// Shapes of MatMul, as in NumPy's matmul. Operands of rank 2 and more are stacks of matrices whose
// leading axes broadcast. An operand of rank 1 is a row (left operand) or a column (right operand),
// and the result does not have that axis.

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
  // the merged axes of a stack of matrices, without the last two axes; strides are in matrices
  std::vector<BroadcastAxis> batches;
};

// Flags of a product. If an operand's flag is set, its last two axes are swapped before the
// multiplication; the operand must then have rank 2 or more.
struct MatMulFlags {
  bool transpose_a = false;
  bool transpose_b = false;
};
absl::StatusOr<MatMulShape> ResolveMatMul(const Shape& a, const Shape& b, const MatMulFlags& flags);

// The attributes of Gemm: alpha op(A) op(B) + beta C. All operands are matrices, and C broadcasts
// to the result.
struct GemmParameters {
  float alpha = 1;
  float beta = 1;
  MatMulFlags flags;
};
GemmParameters ParseGemm(AttributeReader& reader);

// Checks the operands of Gemm and returns the shape of the product; `c` may be without value.
// Errors: INVALID_ARGUMENT for a wrong rank or type, or for a C that does not broadcast to the
// result.
absl::StatusOr<MatMulShape> ResolveGemm(const Tensor& a, const Tensor& b, const Tensor& c,
                                        const MatMulFlags& flags);

}  // namespace cohort
