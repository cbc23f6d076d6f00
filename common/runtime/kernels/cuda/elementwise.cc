#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/cuda/make_walk.h"

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

// Allocates the output over an input that has the result's shape, the first one if both have it;
// else allocates a fresh output.
Tensor& OutputOverEither(KernelContext& context, const Shape& shape) {
  const int over = context.input(0).shape() == shape ? 0 : 1;
  if (context.input(over).shape() != shape) return context.Output(0, DType::kFloat32, shape);
  return context.OutputOver(0, over, DType::kFloat32, shape);
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

}  // namespace

void RegisterCudaElementwise(KernelRegistry& registry) {
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

}  // namespace cohort
