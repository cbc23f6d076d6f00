#include <cmath>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

using Function = double (*)(double);
using GradFunction = double (*)(double, double);

double Negate(double x) { return -x; }
double SquareRoot(double x) { return std::sqrt(x); }
double Exponential(double x) { return std::exp(x); }
double Logarithm(double x) { return std::log(x); }
double Rectify(double x) { return x < 0 ? 0 : x; }  // a NaN stays NaN
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double HyperbolicTangent(double x) { return std::tanh(x); }

// The gradients take the forward result y instead of x, so x need not be kept until the backward
// pass.
double ReluGradient(double dy, double y) { return y > 0 ? dy : 0; }
double SigmoidGradient(double dy, double y) { return dy * y * (1 - y); }
double TanhGradient(double dy, double y) { return dy * (1 - y * y); }

template <Function kFunction>
absl::Status RunFloat(KernelContext& context) {
  const Tensor& x = context.input(0);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (const T value : x.span<T>()) *y++ = static_cast<T>(kFunction(static_cast<double>(value)));
    return absl::OkStatus();
  });
}

// Runs Neg or Relu, which are defined for signed integers, too.
template <Function kFunction>
absl::Status RunSigned(KernelContext& context) {
  const Tensor& x = context.input(0);
  if (x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64) {
    return RunFloat<kFunction>(context);
  }
  return DispatchTypes(TypeList<int8_t, int32_t, int64_t>{}, x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (const T value : x.span<T>()) {
      // Unsigned: the lowest number wraps to itself.
      if constexpr (kFunction == Negate) {
        *y++ = static_cast<T>(uint64_t{0} - static_cast<uint64_t>(value));
      } else {
        *y++ = value < T{0} ? T{0} : value;
      }
    }
    return absl::OkStatus();
  });
}

template <GradFunction kFunction>
absl::Status RunGrad(KernelContext& context) {
  const Tensor& dy = context.input(0);
  const Tensor& y = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  return DispatchFloats(y, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dx = context.Output(0, y.dtype(), y.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      dx[i] = static_cast<T>(kFunction(dy.data<T>()[i], y.data<T>()[i]));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceUnary(KernelRegistry& registry) {
  registry.Add("", "Neg", PlainKernel({1, 1, {kSigned}}, RunSigned<Negate>));
  registry.Add("", "Sqrt", PlainKernel({1, 1, {kFloats}}, RunFloat<SquareRoot>));
  registry.Add("", "Exp", PlainKernel({1, 1, {kFloats}}, RunFloat<Exponential>));
  registry.Add("", "Log", PlainKernel({1, 1, {kFloats}}, RunFloat<Logarithm>));
  registry.Add("", "Relu", PlainKernel({1, 1, {kSigned}}, RunSigned<Rectify>));
  registry.Add("", "Sigmoid", PlainKernel({1, 1, {kFloats}}, RunFloat<Logistic>));
  registry.Add("", "Tanh", PlainKernel({1, 1, {kFloats}}, RunFloat<HyperbolicTangent>));
  registry.Add("cohort", "ReluGrad", PlainKernel({2, 2, {kFloats}}, RunGrad<ReluGradient>));
  registry.Add("cohort", "SigmoidGrad", PlainKernel({2, 2, {kFloats}}, RunGrad<SigmoidGradient>));
  registry.Add("cohort", "TanhGrad", PlainKernel({2, 2, {kFloats}}, RunGrad<TanhGradient>));
}

}  // namespace cohort
