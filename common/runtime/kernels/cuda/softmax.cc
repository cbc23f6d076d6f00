#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/loss_support.h"

namespace cohort {

namespace {

// Returns the lines along an axis in the form in which launches take them.
DeviceLines LinesAround(const Shape& shape, int axis) {
  const AxisView view = ViewAroundAxis(shape, axis);
  return {view.outer * view.inner, view.size, view.inner};
}

template <bool kLog>
absl::Status RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor x = context.input(0);
  RETURN_IF_ERROR(RequireType(x, DType::kFloat32));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  const DeviceLines lines = LinesAround(x.shape(), axis);
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  if (x.num_elements() == 0) return absl::OkStatus();
  // Scratch; the stream reuses the memory only for work that runs later.
  Tensor sums = context.stream().NewTensor(DType::kFloat64, Shape{2, lines.count});
  context.stream().Launch(
      &CudaLaunches::softmax, &SoftmaxLaunches::softmax,
      {kLog, lines, OnDevice<float>(x), OnDevice<double>(sums), OnDevice<float>(y)});
  return absl::OkStatus();
}

template <bool kLog>
absl::Status RunSoftmaxGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, y.shape().rank()));
  const DeviceLines lines = LinesAround(y.shape(), axis);
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  if (y.num_elements() == 0) return absl::OkStatus();
  Tensor sums = context.stream().NewTensor(DType::kFloat64, Shape{lines.count});
  context.stream().Launch(&CudaLaunches::softmax, &SoftmaxLaunches::softmax_grad,
                          {kLog, lines, OnDevice<float>(dy), OnDevice<float>(y),
                           OnDevice<double>(sums), OnDevice<float>(dx)});
  return absl::OkStatus();
}

}  // namespace

void RegisterCudaSoftmax(KernelRegistry& registry) {
  const auto add = [&](const char* domain, const char* op, int inputs,
                       absl::Status (*run)(KernelContext&, const AxisParameters&)) {
    registry.Add(domain, op, DeviceKernel({inputs, inputs, {kFloat32}}, {}, ParseLastAxis, run));
  };
  add("", "Softmax", 1, RunSoftmax<false>);
  add("", "LogSoftmax", 1, RunSoftmax<true>);
  add("cohort", "SoftmaxGrad", 2, RunSoftmaxGrad<false>);
  add("cohort", "LogSoftmaxGrad", 2, RunSoftmaxGrad<true>);
}

}  // namespace cohort
