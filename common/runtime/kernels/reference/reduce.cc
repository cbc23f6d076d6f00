#include <algorithm>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/loss_support.h"
#include "common/runtime/kernels/reduce_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

// Adds up the elements of `input` that share an element of the shape `kept`, which broadcasts to
// the input's shape. Returns the sums.
template <typename T>
std::vector<Accumulator<T>> AddUp(const Tensor& input, const Shape& kept) {
  std::vector<Accumulator<T>> sums(static_cast<size_t>(kept.num_elements()), 0);
  // The strides in `kept` are 0 along the reduced axes, so all elements that belong to one sum are
  // added to the same element of `sums`.
  const std::vector<BroadcastAxis> axes = BroadcastAxes(kept, input.shape(), input.shape());
  const BroadcastAxis run = axes.back();
  ForEachRun(axes, [&](int64_t to, int64_t from, int64_t) {
    for (int64_t i = 0; i < run.size; ++i) {
      sums[static_cast<size_t>(to + i * run.stride_a)] +=
          static_cast<Accumulator<T>>(input.data<T>()[from + i * run.stride_b]);
    }
  });
  return sums;
}

absl::Status Reduce(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchTypes(SumTypes{}, input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // The mean of no floats is 0 / 0, a NaN. Integers have no NaN, so the mean of no integers is an
    // error.
    if (!std::is_floating_point_v<T> && parameters.mean && shape.count == 0) {
      return absl::InvalidArgumentError("mean of no integers");
    }
    const std::vector<Accumulator<T>> sums = AddUp<T>(input, shape.kept);
    T* out = context.Output(0, input.dtype(), shape.result).template mutable_data<T>();
    for (const Accumulator<T> sum : sums) {
      *out++ =
          static_cast<T>(parameters.mean ? sum / static_cast<Accumulator<T>>(shape.count) : sum);
    }
    return absl::OkStatus();
  });
}

// Runs ReduceSum, whose axes are an input and thus known only when the node runs.
absl::Status RunReduceSum(KernelContext& context, const ReduceParameters& parameters) {
  ASSIGN_OR_RETURN(const ReduceParameters resolved, WithAxesInput(parameters, context.input(1)));
  if (resolved.axes.empty() && resolved.no_axes_is_identity) {
    RETURN_IF_ERROR(RequireTypeIn(context.input(0), kSums));
    context.Forward(0, context.input(0));
    return absl::OkStatus();
  }
  return Reduce(context, resolved);
}

absl::Status RunReduceToShapeOf(KernelContext& context) {
  const Tensor& grad = context.input(0);
  const Shape& like = context.input(1).shape();
  const absl::StatusOr<Shape> shape = BroadcastShape(like, grad.shape());
  if (!shape.ok() || *shape != grad.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat(like.ToString(), " does not broadcast to ", grad.TypeString()));
  }
  return DispatchFloats(grad, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const std::vector<double> sums = AddUp<T>(grad, like);
    T* out = context.Output(0, grad.dtype(), like).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

absl::Status RunReduceGrad(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Shape& input = context.input(1).shape();
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input, parameters));
  if (dy.shape() != shape.result) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", dy.TypeString(), " where the reduction gave ", shape.result.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // An input element contributes to one result, so its gradient is the gradient of this result;
    // for ReduceMean, it is divided by the number of elements of the mean.
    const double scale = parameters.mean ? 1.0 / static_cast<double>(shape.count) : 1.0;
    T* out = context.Output(0, dy.dtype(), input).template mutable_data<T>();
    const std::vector<BroadcastAxis> axes = BroadcastAxes(shape.kept, input, input);
    const BroadcastAxis run = axes.back();
    ForEachRun(axes, [&](int64_t from, int64_t, int64_t to) {
      for (int64_t i = 0; i < run.size; ++i) {
        out[to + i] = static_cast<T>(scale * dy.data<T>()[from + i * run.stride_a]);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceReduce(KernelRegistry& registry) {
  using Parameters = ReduceParameters;
  registry.Add("", "ReduceSum",
               BoundKernel<Parameters>({1, 2, {kSums, kIndices}}, ParseReduceSum, RunReduceSum));
  registry.Add("", "ReduceMean", BoundKernel<Parameters>({1, 1, {kSums}}, ParseReduceMean, Reduce));
  registry.Add(
      "cohort", "ReduceGrad",
      BoundKernel<Parameters>({2, 2, {kFloats, kAnyType}}, ParseReduceGrad, RunReduceGrad));
  registry.Add("cohort", "ReduceToShapeOf",
               PlainKernel({2, 2, {kFloats, kAnyType}}, RunReduceToShapeOf));
}

}  // namespace cohort
