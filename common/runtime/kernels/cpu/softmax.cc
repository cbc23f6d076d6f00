#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/loss_support.h"

namespace cohort {

namespace {

// Returns whether the axis is the last one, whose lines are contiguous.
bool IsLastAxis(const Tensor& tensor, int64_t axis) {
  const int rank = tensor.shape().rank();
  return rank >= 1 && (axis == -1 || axis == rank - 1) && tensor.num_elements() > 0;
}

Lines OutputLines(const Tensor& like, Tensor& output) {
  const int64_t size = like.shape().dim(like.shape().rank() - 1);
  return {output.mutable_data<float>(), like.num_elements() / size, size};
}

template <void (*kLoop)(const float*, const Lines&)>
bool RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor x = context.input(0);
  if (!IsFloat32(x) || !IsLastAxis(x, parameters.axis)) return false;
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  kLoop(x.data<float>(), OutputLines(x, y));
  return true;
}

template <void (*kLoop)(const float*, const float*, const Lines&)>
bool RunGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  if (!AreFloat32Twins(dy, y) || !IsLastAxis(y, parameters.axis)) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  kLoop(dy.data<float>(), y.data<float>(), OutputLines(y, dx));
  return true;
}

}  // namespace

void RegisterCpuSoftmax(const CpuRegistration& registration) {
  registration.Add("", "Softmax", ParseLastAxis, RunSoftmax<SoftmaxLines>);
  registration.Add("", "LogSoftmax", ParseLastAxis, RunSoftmax<LogSoftmaxLines>);
  registration.Add("cohort", "SoftmaxGrad", ParseLastAxis, RunGrad<SoftmaxGradLines>);
  registration.Add("cohort", "LogSoftmaxGrad", ParseLastAxis, RunGrad<LogSoftmaxGradLines>);
}

}  // namespace cohort
