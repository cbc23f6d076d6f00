#include "common/runtime/kernels/cuda/cuda_kernel.h"

namespace cohort {

namespace {

template <UnaryOp kOp>
absl::Status RunUnary(KernelContext& context) {
  const Tensor x = context.input(0);
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  context.stream().Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::unary,
                          {kOp, x.num_elements(), OnDevice<float>(x), OnDevice<float>(y)});
  return absl::OkStatus();
}

}  // namespace

void RegisterCudaElementwise(KernelRegistry& registry) {
  const auto add = [&](const char* op, absl::Status (*run)(KernelContext&)) {
    registry.Add("", op, DeviceKernel({1, 1, {kFloat32}}, {}, run));
  };
  add("Neg", RunUnary<UnaryOp::kNeg>);
  add("Sqrt", RunUnary<UnaryOp::kSqrt>);
  add("Exp", RunUnary<UnaryOp::kExp>);
  add("Log", RunUnary<UnaryOp::kLog>);
  add("Relu", RunUnary<UnaryOp::kRelu>);
  add("Sigmoid", RunUnary<UnaryOp::kSigmoid>);
  add("Tanh", RunUnary<UnaryOp::kTanh>);
}

}  // namespace cohort
