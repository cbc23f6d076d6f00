#include "common/runtime/kernels/cpu/sgemm.h"

#include <algorithm>

#include "common/base/check.h"
#include "dnnl.h"

// Sets the calling thread's number of OpenMP threads, with which oneDNN computes. The function is
// declared here because clang has no omp.h without its own OpenMP.
extern "C" void omp_set_num_threads(int threads);

namespace cohort {

void Sgemm(const GemmExtents& extents, const GemmFactor& a, const GemmFactor& b,
           const GemmResult& c, const GemmScale& scale, int threads) {
  if (extents.m == 0 || extents.n == 0) return;
  if (extents.k == 0) {  // dnnl_sgemm refuses a leading dimension of 0
    for (int64_t row = 0; row < extents.m; ++row) {
      float* const line = c.data + row * c.stride;
      if (scale.beta == 0) std::fill_n(line, extents.n, 0.0f);
      if (scale.beta == 0 || scale.beta == 1) continue;
      for (int64_t i = 0; i < extents.n; ++i) line[i] *= scale.beta;
    }
    return;
  }
  // The number of OpenMP threads is a setting of each thread, and a strand moves between threads,
  // so the number is set before each product (a thread-local store). With one thread oneDNN calls
  // its kernel directly and starts no team of threads.
  omp_set_num_threads(threads);
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N',
                                          extents.m, extents.n, extents.k, scale.alpha, a.data,
                                          a.stride, b.data, b.stride, scale.beta, c.data, c.stride);
  COHORT_CHECK(status == dnnl_success, "sgemm takes any sizes");
}

}  // namespace cohort
