// Matrix products by cuBLAS, whose matrices are column-major. To cuBLAS a row-major matrix looks
// like its own transpose, so C = A * B is computed as C' = B' * A'.

#include "common/runtime/cuda/backend/blas_calls.h"

#include <algorithm>

#include "common/runtime/cuda/backend/cuda_context.h"

namespace cohort {

namespace {

// The largest number of products in one call: cuBLAS maps the batch to an axis of CUDA's grid,
// which has this limit.
constexpr int64_t kBatchMax = 65535;

int32_t Gemm(CudaContext* context, const GemmLaunch& launch) {
  int32_t code = Enter(context);
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // A batch of more than kBatchMax products takes several calls.
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
