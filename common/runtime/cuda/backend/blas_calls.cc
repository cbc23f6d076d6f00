// Matrix products by cuBLAS, whose matrices are column major: read so, a row-major matrix is its
// transpose, and C = A * B becomes C' = B' * A'.

#include "common/runtime/cuda/backend/blas_calls.h"

#include <algorithm>

#include "common/runtime/cuda/backend/cuda_context.h"

namespace cohort {

namespace {

// A batch is an axis of a grid, where CUDA has room for so many.
constexpr int64_t kBatchMax = 65535;

int32_t Gemm(CudaContext* context, const GemmLaunch& launch) {
  int32_t code = Enter(context);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  for (int64_t first = 0; code == kCudaDone && first < launch.batch; first += kBatchMax) {
    code = Code(cublasSgemmStridedBatched_64(
        context->blas, op(launch.transpose_b), op(launch.transpose_a), launch.n, launch.m, launch.k,
        &launch.alpha, launch.b + first * launch.stride_b, launch.transpose_b ? launch.k : launch.n,
        launch.stride_b, launch.a + first * launch.stride_a,
        launch.transpose_a ? launch.m : launch.k, launch.stride_a, &launch.beta,
        launch.c + first * launch.stride_c, launch.n, launch.stride_c,
        std::min(launch.batch - first, kBatchMax)));
  }
  return code;
}

}  // namespace

GemmLibrary MakeGemmLibrary() { return {Gemm}; }

}  // namespace cohort
