#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/matmul_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The type in which the terms of a product are added up. Integers are added up as unsigned numbers,
// so that an overflow wraps around.
template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

// A view of a matrix. Swapped strides give the transpose, and a stride of 0 repeats a row or a
// column.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;
  Accumulator<T> At(int64_t row, int64_t column) const {
    return static_cast<Accumulator<T>>(data[row * row_stride + column * column_stride]);
  }
};

template <typename T>
Accumulator<T> Dot(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t column, int64_t k) {
  Accumulator<T> sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += a.At(row, i) * b.At(i, column);
  return sum;
}

absl::Status RunMatMul(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  RETURN_IF_ERROR(RequireSameType(a, b));
  ASSIGN_OR_RETURN(const MatMulShape shape, ResolveMatMul(a.shape(), b.shape(), {}));
  return DispatchTypes(SumTypes{}, a, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, a.dtype(), shape.result).template mutable_data<T>();
    const int64_t run = shape.batches.back().size;
    // Each iteration multiplies one matrix of `a` by the matrix of `b` that belongs to it after
    // broadcasting.
    ForEachRun(shape.batches, [&](int64_t first_a, int64_t first_b, int64_t first) {
      for (int64_t i = 0; i < run; ++i) {
        const int64_t at_a = first_a + i * shape.batches.back().stride_a;
        const int64_t at_b = first_b + i * shape.batches.back().stride_b;
        const Matrix<T> left = {a.data<T>() + at_a * shape.m * shape.k, shape.k, 1};
        const Matrix<T> right = {b.data<T>() + at_b * shape.k * shape.n, shape.n, 1};
        T* matrix = out + (first + i) * shape.m * shape.n;
        for (int64_t row = 0; row < shape.m; ++row) {
          for (int64_t column = 0; column < shape.n; ++column) {
            *matrix++ = static_cast<T>(Dot(left, right, row, column, shape.k));
          }
        }
      }
    });
    return absl::OkStatus();
  });
}

// Returns Gemm's operand C as a matrix of the result's shape; a stride of 0 repeats a row or column
// of C.
template <typename T>
Matrix<T> BroadcastMatrix(const Tensor& c) {
  const Shape& shape = c.shape();
  const int rank = shape.rank();
  const int64_t columns = rank >= 1 ? shape.dim(rank - 1) : 1;
  const int64_t rows = rank >= 2 ? shape.dim(rank - 2) : 1;
  return {c.data<T>(), rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
}

absl::Status RunGemm(KernelContext& context, const GemmParameters& parameters) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const Tensor& c = context.input(2);
  RETURN_IF_ERROR(RequireSameType(a, b));
  ASSIGN_OR_RETURN(const MatMulShape shape, ResolveGemm(a, b, c, parameters.flags));
  return DispatchFloats(a, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // A transposed operand is read with its strides swapped.
    const bool ta = parameters.flags.transpose_a;
    const bool tb = parameters.flags.transpose_b;
    const Matrix<T> left = {a.data<T>(), ta ? 1 : shape.k, ta ? shape.m : 1};
    const Matrix<T> right = {b.data<T>(), tb ? 1 : shape.n, tb ? shape.k : 1};
    T* out = context.Output(0, a.dtype(), shape.result).template mutable_data<T>();
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t column = 0; column < shape.n; ++column) {
        double value = parameters.alpha * Dot(left, right, row, column, shape.k);
        if (c.has_value()) value += parameters.beta * BroadcastMatrix<T>(c).At(row, column);
        *out++ = static_cast<T>(value);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceMatMul(KernelRegistry& registry) {
  registry.Add("", "MatMul", PlainKernel({2, 2, {kSums}}, RunMatMul));
  registry.Add("", "Gemm", BoundKernel<GemmParameters>({2, 3, {kFloats}}, ParseGemm, RunGemm));
}

}  // namespace cohort
