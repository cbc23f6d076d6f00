#include "tests/bench/sgemm_rate.h"

#include <dnnl.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/bench/bench.h"

// Of the OpenMP that oneDNN was built with.
extern "C" void omp_set_num_threads(int threads);

namespace cohort::bench {

double SgemmRate(const Product& product) {
  omp_set_num_threads(1);
  constexpr double kFlopsPerRepeat = 1e10;
  const auto [m, n, k] = product;
  const double flops = 2.0 * m * n * k;
  const int calls = std::max(1, static_cast<int>(kFlopsPerRepeat / flops));
  const auto floats = [](int rows, int columns, float value) {
    return std::vector<float>(static_cast<size_t>(rows) * static_cast<size_t>(columns), value);
  };
  const std::vector<float> a = floats(m, k, 0.5f), b = floats(k, n, 0.25f);
  std::vector<float> c = floats(m, n, 0);
  std::vector<double> rates;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, c.data(), n);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.push_back(flops * calls / seconds.count());
  }
  return Median(rates);
}

}  // namespace cohort::bench
