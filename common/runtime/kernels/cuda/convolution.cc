#include <limits>

#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

namespace {

// A convolution as the library (cuDNN) can compute it, which pads both ends of an axis alike. If
// equal padding would change the number of outputs, x is put into a frame of zeros first; `framed`
// describes the frame.
struct Plan {
  ConvLaunch launch;
  FramedPlanes framed;
  bool is_framed = false;
};

// Returns the number of outputs that the library computes along one axis with equal padding.
int64_t OutputsOf(const ConvAxis& axis) {
  const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
  return (axis.input + 2 * axis.pad - extent) / axis.stride + 1;
}

// cuDNN's descriptors count elements in 32-bit integers.
absl::Status CheckSizes(const ConvShape& shape, const Plan& plan) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t x = shape.batch * shape.groups * shape.inputs * plan.framed.large_rows *
                    plan.framed.large_columns;
  if (x <= kMost && shape.y.num_elements() <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a GPU's convolution takes ", kMost, " elements at most; use a smaller batch"));
}

absl::StatusOr<Plan> PlanOf(const ConvShape& shape) {
  if (shape.window.axes.size() != 2) {  // occurs if the graph declares a wrong rank for x
    return absl::InvalidArgumentError(absl::StrCat("a GPU's convolution has 2 axes, not ",
                                                   shape.window.axes.size(), "; use cpu devices"));
  }
  const auto along = [](const WindowAxis& axis) {
    return ConvAxis{axis.input,  axis.output,   axis.kernel,
                    axis.stride, axis.dilation, axis.pad_begin};
  };
  const WindowAxis& rows = shape.window.axes[0];
  const WindowAxis& columns = shape.window.axes[1];
  Plan plan;
  plan.launch = {shape.batch,   shape.groups, shape.inputs,
                 shape.outputs, along(rows),  along(columns)};
  ConvLaunch& launch = plan.launch;
  // cuDNN pads both ends of an axis by pad_begin. This is right as long as the number of outputs
  // stays the same.
  plan.is_framed =
      OutputsOf(launch.rows) != rows.output || OutputsOf(launch.columns) != columns.output;
  plan.framed = {shape.batch * shape.groups * shape.inputs,
                 rows.input,
                 columns.input,
                 0,
                 0,
                 rows.input,
                 columns.input};
  if (plan.is_framed) {
    plan.framed.top = rows.pad_begin;
    plan.framed.left = columns.pad_begin;
    launch.rows.input = plan.framed.large_rows += rows.pad_begin + rows.pad_end;
    launch.columns.input = plan.framed.large_columns += columns.pad_begin + columns.pad_end;
    launch.rows.pad = launch.columns.pad = 0;
  }
  RETURN_IF_ERROR(CheckSizes(shape, plan));
  return plan;
}

Tensor NewFrame(CudaStream& stream, const FramedPlanes& framed) {
  return stream.NewTensor(DType::kFloat32,
                          Shape{framed.planes, framed.large_rows, framed.large_columns});
}

// Returns x inside a frame of zeros if cuDNN needs one (plan.is_framed), else x itself.
Tensor Framed(CudaStream& stream, const Plan& plan, const Tensor& x) {
  if (!plan.is_framed) return x;
  Tensor frame = NewFrame(stream, plan.framed);
  stream.Launch(&CudaLaunches::padding, &PaddingLaunches::pad,
                {plan.framed, OnDevice<float>(x), OnDevice<float>(frame)});
  return frame;
}

// Returns whether an operand or the result is empty. The convolution then adds up no products.
bool IsEmpty(const ConvShape& shape, const Tensor& a, const Tensor& b) {
  return a.num_elements() == 0 || b.num_elements() == 0 || shape.y.num_elements() == 0;
}

absl::Status RunConv(KernelContext& context, const ConvParameters& parameters) {
  const Tensor x = context.input(0);
  const Tensor w = context.input(1);
  const Tensor bias = context.input(2);
  RETURN_IF_ERROR(RequireSameType(x, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConv(x.shape(), w.shape(), parameters));
  RETURN_IF_ERROR(CheckConvBias(w, bias));
  ASSIGN_OR_RETURN(Plan plan, PlanOf(shape));
  const bool is_empty = IsEmpty(shape, x, w);
  // The result of a convolution that adds up no products is filled with zeros, which would be wrong
  // with a bias.
  if (is_empty && bias.has_value() && shape.y.num_elements() > 0) {
    return absl::InvalidArgumentError("a GPU's convolution of nothing has no bias");
  }
  CudaStream& stream = context.stream();
  Tensor& y = context.Output(0, DType::kFloat32, shape.y);
  if (is_empty) {
    stream.FillZeros(y);
    return absl::OkStatus();
  }
  const Tensor frame = Framed(stream, plan, x);
  plan.launch.first = OnDevice<float>(frame);
  plan.launch.second = OnDevice<float>(w);
  plan.launch.bias = bias.has_value() ? OnDevice<float>(bias) : nullptr;
  plan.launch.result = OnDevice<float>(y);
  stream.Launch(&CudaLaunches::convolution, &ConvolutionLaunches::forward, plan.launch);
  return absl::OkStatus();
}

absl::Status RunConvInputGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor w = context.input(1);
  const Shape x = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x, w.shape(), parameters));
  ASSIGN_OR_RETURN(Plan plan, PlanOf(shape));
  CudaStream& stream = context.stream();
  Tensor& dx = context.Output(0, DType::kFloat32, x);
  if (IsEmpty(shape, w, dx)) {
    stream.FillZeros(dx);
    return absl::OkStatus();
  }
  // If x has a frame of zeros, cuDNN computes the gradient of the framed x, and the frame is cut
  // off afterwards.
  Tensor frame = plan.is_framed ? NewFrame(stream, plan.framed) : dx;
  plan.launch.first = OnDevice<float>(dy);
  plan.launch.second = OnDevice<float>(w);
  plan.launch.result = plan.is_framed ? OnDevice<float>(frame) : OnDevice<float>(dx);
  stream.Launch(&CudaLaunches::convolution, &ConvolutionLaunches::input_grad, plan.launch);
  if (!plan.is_framed) return absl::OkStatus();
  stream.Launch(&CudaLaunches::padding, &PaddingLaunches::crop,
                {plan.framed, plan.launch.result, OnDevice<float>(dx)});
  return absl::OkStatus();
}

absl::Status RunConvWeightGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  const Shape w = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x.shape(), w, parameters));
  ASSIGN_OR_RETURN(Plan plan, PlanOf(shape));
  CudaStream& stream = context.stream();
  Tensor& dw = context.Output(0, DType::kFloat32, w);
  if (IsEmpty(shape, x, dw)) {
    stream.FillZeros(dw);
    return absl::OkStatus();
  }
  const Tensor frame = Framed(stream, plan, x);
  plan.launch.first = OnDevice<float>(dy);
  plan.launch.second = OnDevice<float>(frame);
  plan.launch.result = OnDevice<float>(dw);
  stream.Launch(&CudaLaunches::convolution, &ConvolutionLaunches::weight_grad, plan.launch);
  return absl::OkStatus();
}

// Restricts a kernel to inputs of rank 4, which are images of two axes. All other images stay on
// the processor.
KernelDefinition ForImages(KernelDefinition definition) {
  definition.rank = 4;
  return definition;
}

}  // namespace

void RegisterCudaConvolution(KernelRegistry& registry) {
  registry.Add("", "Conv", ForImages(DeviceKernel({2, 3, {kFloat32}}, {}, ParseConv, RunConv)));
  // The last input of a gradient kernel is read only for its shape.
  const std::vector<InputPlace> places = {InputPlace::kDevice, InputPlace::kDevice,
                                          InputPlace::kEither};
  const Signature signature = {3, 3, {kFloat32, kFloat32, kAnyType}};
  registry.Add("cohort", "ConvInputGrad",
               ForImages(DeviceKernel(signature, places, ParseConv, RunConvInputGrad)));
  registry.Add("cohort", "ConvWeightGrad",
               ForImages(DeviceKernel(signature, places, ParseConv, RunConvWeightGrad)));
}

}  // namespace cohort
