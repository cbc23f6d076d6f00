#include "common/runtime/kernels/batch_norm_shape.h"
#include "common/runtime/kernels/cuda/cuda_kernel.h"

namespace cohort {

namespace {

ChannelView ViewOf(const BatchNormShape& shape) {
  return {shape.outer, shape.channels, shape.inner};
}

// Allocates a tensor of one double for each channel. The caller may drop the tensor as soon as all
// work that uses it has been posted.
Tensor NewNumbers(KernelContext& context, const BatchNormShape& shape) {
  return context.stream().NewTensor(DType::kFloat64, Shape{shape.channels});
}

struct Statistics {
  Tensor means;
  Tensor variances;
};

Statistics BatchStatistics(KernelContext& context, const BatchNormShape& shape, const Tensor& x) {
  Statistics made = {NewNumbers(context, shape), NewNumbers(context, shape)};
  context.stream().Launch(&CudaLaunches::batch_norm, &BatchNormLaunches::batch_statistics,
                          {ViewOf(shape), OnDevice<float>(x), OnDevice<double>(made.means),
                           OnDevice<double>(made.variances)});
  return made;
}

Statistics Given(KernelContext& context, const BatchNormShape& shape, const Tensor& mean,
                 const Tensor& variance) {
  Statistics made = {NewNumbers(context, shape), NewNumbers(context, shape)};
  context.stream().Launch(&CudaLaunches::batch_norm, &BatchNormLaunches::given_statistics,
                          {shape.channels, OnDevice<float>(mean), OnDevice<float>(variance),
                           OnDevice<double>(made.means), OnDevice<double>(made.variances)});
  return made;
}

// Posts the computation of output `output`, the updated running mean or variance. Does nothing if
// the output is not wanted.
void PutRunning(KernelContext& context, int output, float kept, const Tensor& before,
                const Tensor& now) {
  if (!context.output_wanted(output)) return;
  Tensor& out = context.Output(output, DType::kFloat32, before.shape());
  context.stream().Launch(&CudaLaunches::batch_norm, &BatchNormLaunches::running,
                          {before.num_elements(), static_cast<double>(kept),
                           OnDevice<float>(before), OnDevice<double>(now), OnDevice<float>(out)});
}

absl::Status RunBatchNorm(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor x = context.input(0);
  const Tensor scale = context.input(1);
  const Tensor bias = context.input(2);
  const Tensor mean = context.input(3);
  const Tensor variance = context.input(4);
  ASSIGN_OR_RETURN(const BatchNormShape shape, ResolveBatchNorm(context));
  const Statistics used = parameters.training ? BatchStatistics(context, shape, x)
                                              : Given(context, shape, mean, variance);
  PutRunning(context, 1, parameters.momentum, mean, used.means);
  PutRunning(context, 2, parameters.momentum, variance, used.variances);
  if (!context.output_wanted(0)) return absl::OkStatus();
  // Work that was posted before computes all statistics from x, so each y depends only on the x at
  // the same place. Therefore y may overwrite x.
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  context.stream().Launch(
      &CudaLaunches::batch_norm, &BatchNormLaunches::normalize,
      {ViewOf(shape), static_cast<double>(parameters.epsilon), OnDevice<float>(x),
       OnDevice<float>(scale), OnDevice<float>(bias), OnDevice<double>(used.means),
       OnDevice<double>(used.variances), OnDevice<float>(y)});
  return absl::OkStatus();
}

float* WantedLike(KernelContext& context, int output, const Tensor& like) {
  if (!context.output_wanted(output)) return nullptr;
  return OnDevice<float>(context.Output(output, DType::kFloat32, like.shape()));
}

// Computes the gradients of BatchNormalization by the formulas in reference/batch_normalization.cc.
absl::Status RunBatchNormGrad(KernelContext& context, const BatchNormParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const Tensor scale = context.input(2);
  ASSIGN_OR_RETURN(const BatchNormShape shape, ResolveBatchNormGrad(context, parameters));
  const Statistics used = parameters.training
                              ? BatchStatistics(context, shape, x)
                              : Given(context, shape, context.input(3), context.input(4));
  Tensor sums = NewNumbers(context, shape);
  Tensor products = NewNumbers(context, shape);
  float* const dscale = WantedLike(context, 1, scale);
  float* const dbias = WantedLike(context, 2, scale);
  const auto epsilon = static_cast<double>(parameters.epsilon);
  context.stream().Launch(&CudaLaunches::batch_norm, &BatchNormLaunches::sums,
                          {ViewOf(shape), epsilon, OnDevice<float>(dy), OnDevice<float>(x),
                           OnDevice<double>(used.means), OnDevice<double>(used.variances),
                           OnDevice<double>(sums), OnDevice<double>(products), dbias, dscale});
  if (!context.output_wanted(0)) return absl::OkStatus();
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  context.stream().Launch(
      &CudaLaunches::batch_norm, &BatchNormLaunches::gradient,
      {ViewOf(shape), epsilon, parameters.training, OnDevice<float>(dy), OnDevice<float>(x),
       OnDevice<float>(scale), OnDevice<double>(used.means), OnDevice<double>(used.variances),
       OnDevice<double>(sums), OnDevice<double>(products), OnDevice<float>(dx)});
  return absl::OkStatus();
}

}  // namespace

// Registers BatchNormalization and its gradient. All inputs are on the device; the processor reads
// none of them.
void RegisterCudaBatchNormalization(KernelRegistry& registry) {
  registry.Add("", "BatchNormalization",
               DeviceKernel({5, 5, {kFloat32}, 3}, {}, ParseBatchNorm, RunBatchNorm));
  registry.Add("cohort", "BatchNormalizationGrad",
               DeviceKernel({3, 5, {kFloat32}, 3}, {}, ParseBatchNormGrad, RunBatchNormGrad));
}

}  // namespace cohort
