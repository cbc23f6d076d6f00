// Matrix products by cuBLAS, whose matrices are column major: read so, a row-major matrix is its
// transpose, and C = A * B becomes C' = B' * A'.

#include "common/runtime/cuda/backend/blas_calls.h"

#include "common/runtime/cuda/backend/cuda_context.h"

namespace cohort {

namespace {

// beta * C: what a product without terms leaves.
int32_t Scale(CudaContext* context, const GemmLaunch& launch) {
  const int64_t count = launch.m * launch.n;
  const int64_t stride = launch.batch == 1 ? count : launch.stride_c;
  if (launch.beta == 0) {
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    return Code(cudaMemset2DAsync(launch.c, static_cast<size_t>(stride) * sizeof(float), 0, bytes,
                                  static_cast<size_t>(launch.batch), context->stream));
  }
  int32_t code = kCudaDone;
  for (int64_t i = 0; i < launch.batch && code == kCudaDone; ++i) {
    code = Code(cublasSscal_64(context->blas, count, &launch.beta, launch.c + i * stride, 1));
  }
  return code;
}

int32_t Gemm(CudaContext* context, const GemmLaunch& launch) {
  if (launch.m == 0 || launch.n == 0 || launch.batch == 0) return kCudaDone;
  if (const int32_t code = Enter(context); code != kCudaDone) return code;
  if (launch.k == 0) return Scale(context, launch);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  return Code(cublasSgemmStridedBatched_64(
      context->blas, op(launch.transpose_b), op(launch.transpose_a), launch.n, launch.m, launch.k,
      &launch.alpha, launch.b, launch.transpose_b ? launch.k : launch.n, launch.stride_b, launch.a,
      launch.transpose_a ? launch.m : launch.k, launch.stride_a, &launch.beta, launch.c, launch.n,
      launch.stride_c, launch.batch));
}

}  // namespace

GemmLibrary MakeGemmLibrary() { return {Gemm}; }

}  // namespace cohort
