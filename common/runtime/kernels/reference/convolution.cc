#include "common/runtime/kernels/reference/convolution_loops.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

absl::Status RunConv(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& bias = context.input(2);
  RETURN_IF_ERROR(RequireSameType(x, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConv(x.shape(), w.shape(), parameters));
  RETURN_IF_ERROR(CheckConvBias(w, bias));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), shape.y).template mutable_data<T>();
    const T* start = bias.has_value() ? bias.data<T>() : nullptr;
    if (shape.y.num_elements() > 0) {
      ConvolutionLoop<T>(shape, {x.data<T>(), w.data<T>(), start}, y);
    }
    return absl::OkStatus();
  });
}

absl::Status RunConvInputGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& w = context.input(1);
  const Shape& x = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, w));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x, w.shape(), parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dx = context.Output(0, dy.dtype(), x).template mutable_data<T>();
    if (x.num_elements() > 0) {
      ConvolutionInputGradLoop<T>(shape, {dy.data<T>(), w.data<T>()}, dx);
    }
    return absl::OkStatus();
  });
}

absl::Status RunConvWeightGrad(KernelContext& context, const ConvParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  const Shape& w = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const ConvShape shape, ResolveConvGrad(dy, x.shape(), w, parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dw = context.Output(0, dy.dtype(), w).template mutable_data<T>();
    ConvolutionWeightGradLoop<T>(shape, {dy.data<T>(), x.data<T>()}, w.num_elements(), dw);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceConvolution(KernelRegistry& registry) {
  registry.Add("", "Conv", BoundKernel<ConvParameters>({2, 3, {kFloats}}, ParseConv, RunConv));
  // The last input of a gradient kernel is read only for its shape.
  registry.Add("cohort", "ConvInputGrad",
               BoundKernel<ConvParameters>({3, 3, {kFloats, kFloats, kAnyType}}, ParseConv,
                                           RunConvInputGrad));
  registry.Add("cohort", "ConvWeightGrad",
               BoundKernel<ConvParameters>({3, 3, {kFloats, kFloats, kAnyType}}, ParseConv,
                                           RunConvWeightGrad));
}

}  // namespace cohort
