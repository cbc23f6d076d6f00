#include <algorithm>
#include <cmath>
#include <limits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/loss_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// Calls line(first element, stride) for each line along the axis.
template <typename Line>
void ForEachLine(const AxisView& view, Line&& line) {
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t inner = 0; inner < view.inner; ++inner) {
      line(outer * view.size * view.inner + inner, view.inner);
    }
  }
}

template <bool kLog>
absl::Status RunSoftmax(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  const AxisView view = ViewAroundAxis(x.shape(), axis);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* in = x.data<T>();
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    ForEachLine(view, [&](int64_t first, int64_t stride) {
      // Subtracting the largest element keeps exp from overflowing.
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < view.size; ++i) {
        largest = std::max(largest, static_cast<double>(in[first + i * stride]));
      }
      double sum = 0;
      for (int64_t i = 0; i < view.size; ++i) sum += std::exp(in[first + i * stride] - largest);
      for (int64_t i = 0; i < view.size; ++i) {
        const double shifted = in[first + i * stride] - largest;
        out[first + i * stride] =
            static_cast<T>(kLog ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
    return absl::OkStatus();
  });
}

template <bool kLog>
absl::Status RunSoftmaxGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& y = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, y.shape().rank()));
  const AxisView view = ViewAroundAxis(y.shape(), axis);
  return DispatchFloats(y, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* grad = dy.data<T>();
    const T* result = y.data<T>();
    T* out = context.Output(0, y.dtype(), y.shape()).template mutable_data<T>();
    ForEachLine(view, [&](int64_t first, int64_t stride) {
      // Softmax: dx = y (dy - sum of dy y). LogSoftmax: dx = dy - exp(y) sum of dy.
      double sum = 0;
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = first + i * stride;
        sum += static_cast<double>(grad[at]) * (kLog ? 1.0 : static_cast<double>(result[at]));
      }
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = first + i * stride;
        out[at] = static_cast<T>(kLog ? grad[at] - std::exp(static_cast<double>(result[at])) * sum
                                      : result[at] * (grad[at] - sum));
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceSoftmax(KernelRegistry& registry) {
  using Parameters = AxisParameters;
  registry.Add("", "Softmax",
               BoundKernel<Parameters>({1, 1, {kFloats}}, ParseLastAxis, RunSoftmax<false>));
  registry.Add("", "LogSoftmax",
               BoundKernel<Parameters>({1, 1, {kFloats}}, ParseLastAxis, RunSoftmax<true>));
  registry.Add("cohort", "SoftmaxGrad",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseLastAxis, RunSoftmaxGrad<false>));
  registry.Add("cohort", "LogSoftmaxGrad",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseLastAxis, RunSoftmaxGrad<true>));
}

}  // namespace cohort
