#include <cmath>
#include <functional>
#include <vector>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/image_loops.h"

namespace cohort {

namespace {

// The mean and the variance of each channel.
struct Statistics {
  std::vector<float> means;
  std::vector<double> variances;
};

// Computes mean and variance in two passes, like the reference kernel. `variances` holds sums until
// they are divided by the number of elements.
Statistics BatchStatistics(const BatchNormShape& shape, const float* x) {
  const auto count = static_cast<double>(shape.count);
  Statistics statistics;
  statistics.variances.resize(static_cast<size_t>(shape.channels));
  SumChannels(shape, x, statistics.variances.data());
  for (const double sum : statistics.variances) {
    statistics.means.push_back(static_cast<float>(sum / count));
  }
  SumChannelSquares(shape, x, statistics.means.data(), statistics.variances.data());
  for (double& sum : statistics.variances) sum /= count;
  return statistics;
}

Statistics Given(const Tensor& mean, const Tensor& variance) {
  const auto means = mean.span<float>();
  const auto variances = variance.span<float>();
  return {{means.begin(), means.end()}, {variances.begin(), variances.end()}};
}

// Writes output `output`, the updated running mean or variance: before * kept + now * (1 - kept).
// Does nothing if the output is not wanted.
void PutRunning(KernelContext& context, int output, double kept, const Tensor& before,
                const std::function<double(size_t)>& now) {
  if (!context.output_wanted(output)) return;
  const absl::Span<const float> old = before.span<float>();
  float* const out = context.Output(output, DType::kFloat32, before.shape()).mutable_data<float>();
  for (size_t c = 0; c < old.size(); ++c) {
    out[c] = static_cast<float>(static_cast<double>(old[c]) * kept + now(c) * (1 - kept));
  }
}

bool RunBatchNorm(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor x = context.input(0);
  const Tensor scale = context.input(1);
  const Tensor bias = context.input(2);
  const Tensor mean = context.input(3);
  const Tensor variance = context.input(4);
  const absl::StatusOr<BatchNormShape> shape = ResolveBatchNorm(context);
  if (!shape.ok() || !IsFloat32(x) || x.num_elements() == 0) return false;
  const Statistics used =
      parameters.training ? BatchStatistics(*shape, x.data<float>()) : Given(mean, variance);
  const double kept = parameters.momentum;
  PutRunning(context, 1, kept, mean, [&](size_t c) { return static_cast<double>(used.means[c]); });
  PutRunning(context, 2, kept, variance, [&](size_t c) { return used.variances[c]; });
  if (!context.output_wanted(0)) return true;
  std::vector<float> factors;
  for (size_t c = 0; c < used.means.size(); ++c) {
    factors.push_back(
        static_cast<float>(static_cast<double>(scale.data<float>()[c]) /
                           std::sqrt(used.variances[c] + static_cast<double>(parameters.epsilon))));
  }
  // All statistics have been computed, so each y depends only on the x at the same place. Therefore
  // y may overwrite x.
  float* const y = context.OutputOver(0, 0, DType::kFloat32, x.shape()).mutable_data<float>();
  MapChannels(*shape, {used.means.data(), factors.data(), bias.data<float>()}, x.data<float>(), y);
  return true;
}

void PutChannels(KernelContext& context, int output, const std::vector<double>& values) {
  if (!context.output_wanted(output)) return;
  float* out = context.Output(output, DType::kFloat32, Shape{static_cast<int64_t>(values.size())})
                   .mutable_data<float>();
  for (const double value : values) *out++ = static_cast<float>(value);
}

// Computes the gradients of BatchNormalization by the formulas in reference/batch_normalization.cc.
bool RunBatchNormGrad(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const Tensor scale = context.input(2);
  const absl::StatusOr<BatchNormShape> shape = ResolveBatchNormGrad(context, parameters);
  if (!shape.ok() || !IsFloat32(x) || x.num_elements() == 0) return false;
  const Statistics used = parameters.training ? BatchStatistics(*shape, x.data<float>())
                                              : Given(context.input(3), context.input(4));
  const size_t channels = used.means.size();
  std::vector<double> sums(channels);
  std::vector<double> products(channels);
  SumChannelGradients(*shape, dy.data<float>(), x.data<float>(), used.means.data(),
                      {sums.data(), products.data()});
  const double share = parameters.training ? 1 / static_cast<double>(shape->count) : 0;
  std::vector<float> rates(channels);
  std::vector<float> factors(channels);
  std::vector<float> shifts(channels);
  // Collects all terms of dx into three numbers for each channel, so that dx takes one pass.
  for (size_t c = 0; c < channels; ++c) {
    const double rate = 1 / std::sqrt(used.variances[c] + static_cast<double>(parameters.epsilon));
    const double factor = static_cast<double>(scale.data<float>()[c]) * rate;
    products[c] *= rate;
    rates[c] = static_cast<float>(factor);
    factors[c] = static_cast<float>(-factor * rate * products[c] * share);
    shifts[c] = static_cast<float>(-factor * sums[c] * share);
  }
  PutChannels(context, 1, products);
  PutChannels(context, 2, sums);
  if (!context.output_wanted(0)) return true;
  float* const dx = context.OutputOver(0, 0, DType::kFloat32, x.shape()).mutable_data<float>();
  MapChannelGradients(*shape, {used.means.data(), factors.data(), shifts.data()}, rates.data(),
                      dy.data<float>(), x.data<float>(), dx);
  return true;
}

}  // namespace

void RegisterCpuBatchNormalization(const CpuRegistration& registration) {
  registration.Add("", "BatchNormalization", ParseBatchNorm, RunBatchNorm);
  registration.Add("cohort", "BatchNormalizationGrad", ParseBatchNormGrad, RunBatchNormGrad);
}

}  // namespace cohort
