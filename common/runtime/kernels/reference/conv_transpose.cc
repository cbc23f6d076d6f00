#include "common/runtime/kernels/conv_transpose_shape.h"
#include "common/runtime/kernels/reference/convolution_loops.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// Runs ConvTranspose: the gradient of the image of a convolution whose result has the gradient x.
absl::Status RunConvTranspose(KernelContext& context, const ConvTransposeParameters& parameters) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& bias = InputOr(context, 2);
  RETURN_IF_ERROR(RequireSameType(x, w));
  ASSIGN_OR_RETURN(const ConvTransposeShape shape,
                   ResolveConvTranspose(x.shape(), w.shape(), parameters));
  RETURN_IF_ERROR(CheckConvTransposeBias(w, bias, shape));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), shape.y).template mutable_data<T>();
    const T* start = bias.has_value() ? bias.data<T>() : nullptr;
    if (shape.y.num_elements() > 0) {
      ConvolutionInputGradLoop<T>(shape.conv, {x.data<T>(), w.data<T>(), start}, y);
    }
    return absl::OkStatus();
  });
}

// Runs the gradient of x: the convolution of dy.
absl::Status RunConvTransposeInputGrad(KernelContext& context,
                                       const ConvTransposeParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& w = context.input(1);
  const Shape& x = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, w));
  ASSIGN_OR_RETURN(const ConvTransposeShape shape,
                   ResolveConvTransposeGrad(dy, x, w.shape(), parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dx = context.Output(0, dy.dtype(), x).template mutable_data<T>();
    if (x.num_elements() > 0) ConvolutionLoop<T>(shape.conv, {dy.data<T>(), w.data<T>()}, dx);
    return absl::OkStatus();
  });
}

// Runs the gradient of w: that of the convolution's weights, with dy as the image.
absl::Status RunConvTransposeWeightGrad(KernelContext& context,
                                        const ConvTransposeParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  const Shape& w = context.input(2).shape();
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const ConvTransposeShape shape,
                   ResolveConvTransposeGrad(dy, x.shape(), w, parameters));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dw = context.Output(0, dy.dtype(), w).template mutable_data<T>();
    ConvolutionWeightGradLoop<T>(shape.conv, {x.data<T>(), dy.data<T>()}, w.num_elements(), dw);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceConvTranspose(KernelRegistry& registry) {
  registry.Add("", "ConvTranspose",
               BoundKernel<ConvTransposeParameters>({2, 3, {kFloats}}, ParseConvTranspose,
                                                    RunConvTranspose));
  registry.Add("cohort", "ConvTransposeInputGrad",
               BoundKernel<ConvTransposeParameters>({3, 3, {kFloats, kFloats, kAnyType}},
                                                    ParseConvTranspose, RunConvTransposeInputGrad));
  registry.Add(
      "cohort", "ConvTransposeWeightGrad",
      BoundKernel<ConvTransposeParameters>({3, 3, {kFloats, kFloats, kAnyType}}, ParseConvTranspose,
                                           RunConvTransposeWeightGrad));
}

}  // namespace cohort
