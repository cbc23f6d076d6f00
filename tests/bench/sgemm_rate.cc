#include "tests/bench/sgemm_rate.h"

#include <dnnl.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/bench/bench.h"

// Of the OpenMP that oneDNN was built with.
extern "C" void omp_set_num_threads(int threads);

namespace cohort::bench {

namespace {

constexpr int kRepeats = 7;
constexpr double kFlopsPerRepeat = 1e10;

// Of one thread. `begin` is called before each repeat.
std::vector<double> Rates(const Product& product, absl::FunctionRef<void()> begin) {
  omp_set_num_threads(1);
  const auto [m, n, k] = product;
  const double flops = 2.0 * m * n * k;
  const int calls = std::max(1, static_cast<int>(kFlopsPerRepeat / flops));
  const auto floats = [](int rows, int columns, float value) {
    return std::vector<float>(static_cast<size_t>(rows) * static_cast<size_t>(columns), value);
  };
  const std::vector<float> a = floats(m, k, 0.5f), b = floats(k, n, 0.25f);
  std::vector<float> c = floats(m, n, 0);
  std::vector<double> rates;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    begin();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, c.data(), n);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.push_back(flops * calls / seconds.count());
  }
  return rates;
}

}  // namespace

double SgemmRate(const Product& product) { return SgemmRate(product, 1); }

double SgemmRate(const Product& product, int threads) {
  std::barrier<> together(threads);
  std::vector<std::vector<double>> rates(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  for (auto& each : rates) {
    others.emplace_back([&] { each = Rates(product, [&] { together.arrive_and_wait(); }); });
  }
  for (std::thread& each : others) each.join();
  std::vector<double> sums(kRepeats, 0);
  for (const auto& each : rates) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += each[i];
  }
  return Median(sums);
}

}  // namespace cohort::bench
