#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/dropout_support.h"

namespace cohort {

namespace {

using Unary = UnaryLaunch::Op;
using Binary = BinaryLaunch::Op;
using UnaryGrad = UnaryGradLaunch::Op;

template <Unary kOp>
absl::Status RunUnary(KernelContext& context) {
  const Tensor x = context.input(0);
  RETURN_IF_ERROR(RequireType(x, DType::kFloat32));
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  context.stream().Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::unary,
                          {kOp, x.num_elements(), OnDevice<float>(x), OnDevice<float>(y)});
  return absl::OkStatus();
}

template <Binary kOp>
absl::Status RunBinary(KernelContext& context) {
  const Tensor a = context.input(0);
  const Tensor b = context.input(1);
  RETURN_IF_ERROR(RequireType(a, DType::kFloat32));
  RETURN_IF_ERROR(RequireSameType(a, b));
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(a.shape(), b.shape()));
  ASSIGN_OR_RETURN(const BroadcastWalk walk, MakeWalk(BroadcastAxes(a.shape(), b.shape(), shape)));
  Tensor& out = OutputOverEither(context, shape);
  context.stream().Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::binary,
                          {kOp, out.num_elements(), walk, OnDevice<float>(a), OnDevice<float>(b),
                           OnDevice<float>(out)});
  return absl::OkStatus();
}

template <UnaryGrad kOp>
absl::Status RunGrad(KernelContext& context) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  context.stream().Launch(
      &CudaLaunches::elementwise, &ElementwiseLaunches::unary_grad,
      {kOp, y.num_elements(), OnDevice<float>(dy), OnDevice<float>(y), OnDevice<float>(dx)});
  return absl::OkStatus();
}

void AddArithmetic(KernelRegistry& registry) {
  const auto add = [&](const char* domain, const char* op, int inputs,
                       absl::Status (*run)(KernelContext&)) {
    registry.Add(domain, op, DeviceKernel({inputs, inputs, {kFloat32}}, {}, run));
  };
  add("", "Add", 2, RunBinary<Binary::kAdd>);
  add("", "Sub", 2, RunBinary<Binary::kSub>);
  add("", "Mul", 2, RunBinary<Binary::kMul>);
  add("", "Div", 2, RunBinary<Binary::kDiv>);
  add("", "Neg", 1, RunUnary<Unary::kNeg>);
  add("", "Sqrt", 1, RunUnary<Unary::kSqrt>);
  add("", "Exp", 1, RunUnary<Unary::kExp>);
  add("", "Log", 1, RunUnary<Unary::kLog>);
  add("", "Relu", 1, RunUnary<Unary::kRelu>);
  add("", "Sigmoid", 1, RunUnary<Unary::kSigmoid>);
  add("", "Tanh", 1, RunUnary<Unary::kTanh>);
  add("cohort", "ReluGrad", 2, RunGrad<UnaryGrad::kRelu>);
  add("cohort", "SigmoidGrad", 2, RunGrad<UnaryGrad::kSigmoid>);
  add("cohort", "TanhGrad", 2, RunGrad<UnaryGrad::kTanh>);
}

absl::Status RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor x = context.input(0);
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 1));
  RETURN_IF_ERROR(RequireType(x, DType::kFloat32));
  DropoutLaunch launch;  // the default threshold of 0 keeps all elements
  launch.count = x.num_elements();
  if (context.output_wanted(1)) {
    launch.mask = OnDevice<bool>(context.Output(1, DType::kBool, x.shape()));
  }
  if (mode.training) {
    // The device draws the same random bits as the processor, so both compute the same mask.
    launch.key = DropoutStream(parameters, context.run()).key();
    launch.first = FirstElement(context.run(), x.shape());
    launch.threshold = mode.Threshold();
    launch.scale = static_cast<float>(mode.Scale());
    launch.x = OnDevice<float>(x);
    if (context.output_wanted(0)) {
      launch.y = OnDevice<float>(context.OutputOver(0, 0, DType::kFloat32, x.shape()));
    }
  } else if (context.output_wanted(0)) {
    context.Forward(0, x);
  }
  if (launch.mask == nullptr && launch.y == nullptr) return absl::OkStatus();
  context.stream().Launch(&CudaLaunches::dropout, &DropoutLaunches::dropout, launch);
  return absl::OkStatus();
}

absl::Status RunDropoutGrad(KernelContext& context) {
  const Tensor dy = context.input(0);
  const Tensor mask = context.input(1);
  RETURN_IF_ERROR(RequireType(mask, DType::kBool));
  RETURN_IF_ERROR(RequireSameShape(dy, mask));
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 2));
  RETURN_IF_ERROR(RequireType(dy, DType::kFloat32));
  if (!mode.training) {
    context.Forward(0, dy);
    return absl::OkStatus();
  }
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, dy.shape());
  context.stream().Launch(&CudaLaunches::dropout, &DropoutLaunches::masked_scale,
                          {dy.num_elements(), static_cast<float>(mode.Scale()), OnDevice<float>(dy),
                           OnDevice<bool>(mask), OnDevice<float>(dx)});
  return absl::OkStatus();
}

void AddDropout(KernelRegistry& registry) {
  const InputPlace device = InputPlace::kDevice;
  // ratio and training_mode are inputs in host memory, which the processor reads before the launch.
  const InputPlace host = InputPlace::kHost;
  registry.Add("", "Dropout",
               DeviceKernel({1, 3, {kFloat32, kNumbers, kBools}, 2}, {device, host, host},
                            ParseDropout, RunDropout));
  registry.Add("cohort", "DropoutGrad",
               DeviceKernel({2, 4, {kFloat32, kBools, kNumbers, kBools}},
                            {device, device, host, host}, RunDropoutGrad));
}

}  // namespace

void RegisterCudaElementwise(KernelRegistry& registry) {
  AddArithmetic(registry);
  AddDropout(registry);
}

}  // namespace cohort
