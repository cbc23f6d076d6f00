#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/window_shape.h"

namespace cohort {

namespace {

// The element types that ONNX's MaxPool takes.
using PooledTypes = TypeList<float, double, int8_t, uint8_t>;

// Finds the position of each window's largest element within its plane, or -1 for a window without
// elements. Of equal elements, the first counts. A NaN is larger than any number; of several NaNs,
// the last counts.
template <typename T>
void FindLargest(const T* plane, const Window& window, std::vector<int64_t>& at) {
  std::fill(at.begin(), at.end(), -1);
  ForEachTap(window, [&](int64_t output, int64_t input, int64_t) {
    int64_t& best = at[static_cast<size_t>(output)];
    const T value = plane[input];
    if (best < 0 || value > plane[best] || value != value) best = input;
  });
}

// Converts a position in a plane from row-major to column-major order.
int64_t ColumnMajor(int64_t position, const Window& window) {
  int64_t result = 0;
  int64_t rest = window.inputs;
  // In column-major order the first axis has a stride of 1.
  for (const WindowAxis& axis : window.axes) {
    rest /= axis.input;
    result += position / rest % axis.input * (window.inputs / rest / axis.input);
  }
  return result;
}

absl::Status RunMaxPool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePool(x.shape(), parameters));
  const Window& window = shape.window;
  return DispatchTypes(PooledTypes{}, x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.output_wanted(0)
                 ? context.Output(0, x.dtype(), shape.y).template mutable_data<T>()
                 : nullptr;
    int64_t* indices = context.output_wanted(1)
                           ? context.Output(1, DType::kInt64, shape.y).mutable_data<int64_t>()
                           : nullptr;
    // A window that covers only padding gives the lowest value of the type.
    const T lowest = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::lowest();
    std::vector<int64_t> at(static_cast<size_t>(window.outputs));
    for (int64_t p = 0; p < shape.planes; ++p) {
      const T* plane = x.data<T>() + p * window.inputs;
      FindLargest(plane, window, at);
      for (const int64_t i : at) {
        if (out != nullptr) *out++ = i < 0 ? lowest : plane[i];
        if (indices == nullptr) continue;
        const int64_t place = parameters.column_major && i >= 0 ? ColumnMajor(i, window) : i;
        *indices++ = p * window.inputs + place;
      }
    }
    return absl::OkStatus();
  });
}

// Adds each dy to the sum of the largest element of its window.
template <typename T>
void AddToLargest(const T* grad, const std::vector<int64_t>& at, std::vector<double>& sums) {
  for (const int64_t i : at) {
    if (i >= 0) sums[static_cast<size_t>(i)] += static_cast<double>(*grad);
    ++grad;
  }
}

// Adds each dy to the sums of all elements of its window that equal the largest one.
template <typename T>
void AddToAllLargest(const T* plane, const T* grad, const Window& window,
                     const std::vector<int64_t>& at, std::vector<double>& sums) {
  ForEachTap(window, [&](int64_t output, int64_t input, int64_t) {
    const int64_t largest = at[static_cast<size_t>(output)];
    if (input != largest && plane[input] != plane[largest]) return;
    sums[static_cast<size_t>(input)] += static_cast<double>(grad[output]);
  });
}

absl::Status RunMaxPoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, x));
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePoolGrad(dy, x.shape(), parameters));
  const Window& window = shape.window;
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    std::vector<int64_t> at(static_cast<size_t>(window.outputs));
    std::vector<double> sums(static_cast<size_t>(window.inputs));
    const T* grad = dy.data<T>();
    for (int64_t p = 0; p < shape.planes; ++p) {
      const T* const plane = x.data<T>() + p * window.inputs;
      FindLargest(plane, window, at);
      std::fill(sums.begin(), sums.end(), 0.0);
      if (window.axes.size() == 3) {
        AddToAllLargest(plane, grad, window, at, sums);
      } else {
        AddToLargest(grad, at, sums);
      }
      grad += window.outputs;
      for (const double sum : sums) *out++ = static_cast<T>(sum);
    }
    return absl::OkStatus();
  });
}

absl::Status RunAveragePool(KernelContext& context, const PoolParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePool(x.shape(), parameters));
  const Window& window = shape.window;
  const std::vector<double> divisors = AverageDivisors(window, parameters.count_padding);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), shape.y).template mutable_data<T>();
    std::vector<double> sums(divisors.size());
    for (int64_t p = 0; p < shape.planes; ++p) {
      std::fill(sums.begin(), sums.end(), 0.0);
      const T* plane = x.data<T>() + p * window.inputs;
      ForEachTap(window, [&](int64_t output, int64_t input, int64_t) {
        sums[static_cast<size_t>(output)] += static_cast<double>(plane[input]);
      });
      for (size_t i = 0; i < sums.size(); ++i) *out++ = static_cast<T>(sums[i] / divisors[i]);
    }
    return absl::OkStatus();
  });
}

absl::Status RunAveragePoolGrad(KernelContext& context, const PoolParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Shape& x = context.input(1).shape();
  ASSIGN_OR_RETURN(const PoolShape shape, ResolvePoolGrad(dy, x, parameters));
  const Window& window = shape.window;
  const std::vector<double> divisors = AverageDivisors(window, parameters.count_padding);
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, dy.dtype(), x).template mutable_data<T>();
    std::vector<double> sums(static_cast<size_t>(window.inputs));
    for (int64_t p = 0; p < shape.planes; ++p) {
      std::fill(sums.begin(), sums.end(), 0.0);
      const T* grad = dy.data<T>() + p * window.outputs;
      ForEachTap(window, [&](int64_t output, int64_t input, int64_t) {
        sums[static_cast<size_t>(input)] +=
            static_cast<double>(grad[output]) / divisors[static_cast<size_t>(output)];
      });
      for (const double sum : sums) *out++ = static_cast<T>(sum);
    }
    return absl::OkStatus();
  });
}

// Runs GlobalAveragePool: the mean of each plane.
absl::Status RunGlobalAveragePool(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const GlobalPoolShape shape, ResolveGlobalPool(x));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* in = x.data<T>();
    T* out = context.Output(0, x.dtype(), shape.y).template mutable_data<T>();
    for (int64_t p = 0; p < shape.y.num_elements(); ++p, in += shape.size) {
      const double sum = std::accumulate(in, in + shape.size, 0.0);
      out[p] = static_cast<T>(sum / static_cast<double>(shape.size));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferencePooling(KernelRegistry& registry) {
  registry.Add(
      "", "MaxPool",
      BoundKernel<PoolParameters>({1, 1, {PooledTypes::Set()}, 2}, ParseMaxPool, RunMaxPool));
  registry.Add("cohort", "MaxPoolGrad",
               BoundKernel<PoolParameters>({2, 2, {kFloats}}, ParseMaxPool, RunMaxPoolGrad));
  registry.Add("", "AveragePool",
               BoundKernel<PoolParameters>({1, 1, {kFloats}}, ParseAveragePool, RunAveragePool));
  registry.Add("cohort", "AveragePoolGrad",
               BoundKernel<PoolParameters>({2, 2, {kFloats, kAnyType}}, ParseAveragePool,
                                           RunAveragePoolGrad));
  registry.Add("", "GlobalAveragePool", PlainKernel({1, 1, {kFloats}}, RunGlobalAveragePool));
}

}  // namespace cohort
