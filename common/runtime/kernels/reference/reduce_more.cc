// The reductions that are not in reduce.cc, their gradients, and ArgMin, CumSum and TopK.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reduce_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The type in which sums and products are formed: double for floats. Integers are unsigned numbers
// of 64 bits, so that an overflow wraps around.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <typename T>
Wide<T> Widen(T value) {
  return static_cast<Wide<T>>(value);
}

// Calls take(place, value, position) for each element of `input`. `place` is the number of the
// element of `kept` (ReduceShape) into which the input's element at `position` is reduced.
template <typename T, typename Take>
void ForEachOf(const Tensor& input, const Shape& kept, Take take) {
  const std::vector<BroadcastAxis> axes = BroadcastAxes(kept, input.shape(), input.shape());
  const BroadcastAxis run = axes.back();
  const T* data = input.data<T>();
  ForEachRun(axes, [&](int64_t to, int64_t from, int64_t) {
    for (int64_t i = 0; i < run.size; ++i) {
      const int64_t position = from + i * run.stride_b;
      take(static_cast<size_t>(to + i * run.stride_a), data[position], position);
    }
  });
}

// Reduces input 0 and writes output 0. Each result has a state, which begins as `start`;
// join(state, value) adds one element to the state, and finish(state) gives the result.
template <typename T, typename State, typename Join, typename Finish>
absl::Status Fold(KernelContext& context, const ReduceShape& shape, State start, Join join,
                  Finish finish) {
  const Tensor& input = context.input(0);
  std::vector<State> states(static_cast<size_t>(shape.kept.num_elements()), start);
  ForEachOf<T>(input, shape.kept,
               [&](size_t place, T value, int64_t) { join(states[place], value); });
  T* out = context.Output(0, input.dtype(), shape.result).template mutable_data<T>();
  for (size_t place = 0; place < states.size(); ++place) *out++ = finish(states[place]);
  return absl::OkStatus();
}

// The first state of ReduceMax is the least number of the type (or -infinity), which is therefore
// the maximum of no elements, as in TensorFlow.
template <typename T>
constexpr T LeastOf() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <typename T>
constexpr T LargestOf() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

template <bool kMinimum>
absl::Status RunExtremum(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchNumbers(input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto join = [](T& best, T value) {
      // If an element is NaN, the maximum or minimum is NaN.
      const bool better = kMinimum ? value < best : value > best;
      if (better || value != value) best = value;
    };
    const T start = kMinimum ? LargestOf<T>() : LeastOf<T>();
    return Fold<T>(context, shape, start, join, [](T best) { return best; });
  });
}

struct ProdOf {
  template <typename T>
  static constexpr T kStart = T{1};
  template <typename T>
  static void Join(Wide<T>& state, T value) {
    state *= Widen(value);
  }
};

struct L1Of {
  template <typename T>
  static constexpr T kStart = T{0};
  template <typename T>
  static void Join(Wide<T>& state, T value) {
    state += value < T{0} ? Wide<T>{0} - Widen(value) : Widen(value);
  }
};

struct SumSquareOf {
  template <typename T>
  static constexpr T kStart = T{0};
  template <typename T>
  static void Join(Wide<T>& state, T value) {
    state += Widen(value) * Widen(value);
  }
};

template <typename Reduction>
absl::Status RunExact(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchTypes(SumTypes{}, input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Fold<T>(context, shape, Reduction::template kStart<Wide<T>>, Reduction::template Join<T>,
                   [](Wide<T> sum) { return static_cast<T>(sum); });
  });
}

absl::Status RunL2(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchFloats(input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Fold<T>(context, shape, 0.0, SumSquareOf::Join<T>,
                   [](double sum) { return static_cast<T>(std::sqrt(sum)); });
  });
}

absl::Status RunLogSum(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchFloats(input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto join = [](double& sum, T value) { sum += static_cast<double>(value); };
    return Fold<T>(context, shape, 0.0, join,
                   [](double sum) { return static_cast<T>(std::log(sum)); });
  });
}

absl::Status RunLogSumExp(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), parameters));
  return DispatchFloats(input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // The largest element is subtracted, so no exponential overflows. An infinite largest element
    // is not subtracted, because infinity - infinity is NaN.
    std::vector<double> largest(static_cast<size_t>(shape.kept.num_elements()), LeastOf<double>());
    ForEachOf<T>(input, shape.kept, [&](size_t place, T value, int64_t) {
      largest[place] = std::max(largest[place], static_cast<double>(value));
    });
    for (double& each : largest) each = std::isfinite(each) ? each : 0;
    std::vector<double> sums(largest.size(), 0);
    ForEachOf<T>(input, shape.kept, [&](size_t place, T value, int64_t) {
      sums[place] += std::exp(static_cast<double>(value) - largest[place]);
    });
    T* out = context.Output(0, input.dtype(), shape.result).template mutable_data<T>();
    for (size_t place = 0; place < sums.size(); ++place) {
      *out++ = static_cast<T>(std::log(sums[place]) + largest[place]);
    }
    return absl::OkStatus();
  });
}

// Checks that dy (input 0 of a gradient) has the shape of the reduction's result and the type of x
// (input 1).
absl::Status CheckGradient(const KernelContext& context, const ReduceShape& shape) {
  const Tensor& dy = context.input(0);
  RETURN_IF_ERROR(RequireSameType(dy, context.input(1)));
  if (dy.shape() == shape.result) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient ", dy.TypeString(), " where the reduction gave ", shape.result.ToString()));
}

absl::Status RunExtremumGrad(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  const Tensor& y = context.input(2);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(x.shape(), parameters));
  RETURN_IF_ERROR(CheckGradient(context, shape));
  RETURN_IF_ERROR(RequireSameType(dy, y));
  RETURN_IF_ERROR(RequireSameShape(dy, y));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const extremum = y.data<T>();
    std::vector<double> shares(static_cast<size_t>(shape.kept.num_elements()), 0);
    ForEachOf<T>(x, shape.kept, [&](size_t place, T value, int64_t) {
      if (value == extremum[place]) ++shares[place];
    });
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    ForEachOf<T>(x, shape.kept, [&](size_t place, T value, int64_t position) {
      // If the extremum is NaN, no element equals it, and the gradient is 0 / 0, a NaN.
      const double chosen = value == extremum[place] ? 1 : 0;
      out[position] =
          static_cast<T>(chosen / shares[place] * static_cast<double>(dy.data<T>()[place]));
    });
    return absl::OkStatus();
  });
}

absl::Status RunProdGrad(KernelContext& context, const ReduceParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(x.shape(), parameters));
  RETURN_IF_ERROR(CheckGradient(context, shape));
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // dx of an element is dy times the product of the elements before it and the product of the
    // elements behind it. To divide the product of all elements by the element would give NaN at 0,
    // and could overflow.
    std::vector<double> running(static_cast<size_t>(shape.kept.num_elements()), 1);
    std::vector<double> before(static_cast<size_t>(x.num_elements()));
    std::vector<size_t> places(before.size());
    ForEachOf<T>(x, shape.kept, [&](size_t place, T value, int64_t position) {
      const size_t at = static_cast<size_t>(position);
      places[at] = place;
      before[at] = running[place];
      running[place] *= static_cast<double>(value);
    });
    std::fill(running.begin(), running.end(), 1);
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (size_t at = before.size(); at-- > 0;) {
      double& behind = running[places[at]];
      out[at] =
          static_cast<T>(static_cast<double>(dy.data<T>()[places[at]]) * (before[at] * behind));
      behind *= static_cast<double>(x.data<T>()[at]);
    }
    return absl::OkStatus();
  });
}

// Finds the index of the largest or the smallest element along an axis.
template <bool kMinimum>
absl::Status RunArgExtremum(KernelContext& context, const ArgMaxParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, input.shape().rank()));
  const AxisView view = ViewAroundAxis(input.shape(), axis);
  if (view.size == 0) {
    return absl::InvalidArgumentError(kMinimum ? "the least of no elements"
                                               : "the largest of no elements");
  }
  ReduceParameters reduce;
  reduce.axes = {axis};
  reduce.keep_dims = parameters.keep_dims;
  ASSIGN_OR_RETURN(const ReduceShape shape, ResolveReduce(input.shape(), reduce));
  return DispatchNumbers(input, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    int64_t* out = context.Output(0, DType::kInt64, shape.result).template mutable_data<int64_t>();
    for (int64_t line = 0; line < view.outer * view.inner; ++line) {
      const T* const first =
          input.data<T>() + line / view.inner * view.size * view.inner + line % view.inner;
      int64_t best = 0;
      for (int64_t i = 1; i < view.size; ++i) {
        const T value = first[i * view.inner];
        const T chosen = first[best * view.inner];
        const bool better = kMinimum ? value < chosen : value > chosen;
        // The first of equal elements counts, or the last if select_last_index is set.
        if (better || (parameters.last && value == chosen)) best = i;
      }
      *out++ = best;
    }
    return absl::OkStatus();
  });
}

struct CumSumParameters {
  bool exclusive = false;
  bool reverse = false;
};

CumSumParameters ParseCumSum(AttributeReader& reader) {
  return {reader.Flag("exclusive", false), reader.Flag("reverse", false)};
}

absl::Status RunCumSum(KernelContext& context, const CumSumParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ToInt64s(context.input(1)));
  if (axes.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the axis is ", context.input(1).TypeString(), ", not a scalar"));
  }
  ASSIGN_OR_RETURN(const int axis, NormalAxis(axes[0], x.shape().rank()));
  const AxisView view = ViewAroundAxis(x.shape(), axis);
  return DispatchTypes(SumTypes{}, x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (int64_t outer = 0; outer < view.outer; ++outer) {
      for (int64_t inner = 0; inner < view.inner; ++inner) {
        Wide<T> sum = 0;
        for (int64_t i = 0; i < view.size; ++i) {
          const int64_t along = parameters.reverse ? view.size - 1 - i : i;
          const int64_t at = (outer * view.size + along) * view.inner + inner;
          const Wide<T> before = sum;
          sum += Widen(x.data<T>()[at]);
          out[at] = static_cast<T>(parameters.exclusive ? before : sum);
        }
      }
    }
    return absl::OkStatus();
  });
}

struct TopKParameters {
  int64_t axis = -1;
  bool largest = true;
};

TopKParameters ParseTopK(AttributeReader& reader) {
  // TopK's results are always sorted: if `sorted` is 0, ONNX allows any order.
  reader.Flag("sorted", true);
  return {reader.Int("axis", -1), reader.Flag("largest", true)};
}

// Returns whether a comes before b among the largest elements (or among the least). A NaN is larger
// than all numbers, so the order is total.
template <typename T>
bool Precedes(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? b == b : a == a;
  return largest ? a > b : a < b;
}

absl::Status RunTopK(KernelContext& context, const TopKParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts, ToInt64s(context.input(1)));
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  const AxisView view = ViewAroundAxis(x.shape(), axis);
  if (counts.size() != 1 || counts[0] < 0 || counts[0] > view.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "K is ", counts.size() == 1 ? absl::StrCat(counts[0]) : context.input(1).TypeString(),
        ": it must be a number between 0 and ", view.size, ", the size of axis ", axis));
  }
  absl::InlinedVector<int64_t, 4> dims(x.shape().dims().begin(), x.shape().dims().end());
  dims[static_cast<size_t>(axis)] = counts[0];
  const Shape shape(absl::MakeConstSpan(dims));
  return DispatchNumbers(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* values = context.output_wanted(0)
                    ? context.Output(0, x.dtype(), shape).template mutable_data<T>()
                    : nullptr;
    int64_t* indices =
        context.output_wanted(1)
            ? context.Output(1, DType::kInt64, shape).template mutable_data<int64_t>()
            : nullptr;
    std::vector<int64_t> order(static_cast<size_t>(view.size));
    for (int64_t line = 0; line < view.outer * view.inner; ++line) {
      const int64_t outer = line / view.inner;
      const int64_t inner = line % view.inner;
      const T* const first = x.data<T>() + outer * view.size * view.inner + inner;
      std::iota(order.begin(), order.end(), 0);
      // Of equal elements, the one with the lower index comes first.
      std::partial_sort(order.begin(), order.begin() + counts[0], order.end(),
                        [&](int64_t a, int64_t b) {
                          const T at_a = first[a * view.inner];
                          const T at_b = first[b * view.inner];
                          if (Precedes(at_a, at_b, parameters.largest)) return true;
                          return !Precedes(at_b, at_a, parameters.largest) && a < b;
                        });
      for (int64_t i = 0; i < counts[0]; ++i) {
        const int64_t to = (outer * counts[0] + i) * view.inner + inner;
        const int64_t from = order[static_cast<size_t>(i)];
        if (values != nullptr) values[to] = first[from * view.inner];
        if (indices != nullptr) indices[to] = from;
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceReduceMore(KernelRegistry& registry) {
  using Parameters = ReduceParameters;
  const auto add = [&](const std::string& op, const DTypeSet& types,
                       absl::Status (*run)(KernelContext&, const Parameters&)) {
    registry.Add("", op, BoundKernel<Parameters>({1, 1, {types}}, ParseReduceAxes, run));
  };
  add("ReduceMax", kNumbers, RunExtremum<false>);
  add("ReduceMin", kNumbers, RunExtremum<true>);
  add("ReduceProd", kSums, RunExact<ProdOf>);
  add("ReduceL1", kSums, RunExact<L1Of>);
  add("ReduceSumSquare", kSums, RunExact<SumSquareOf>);
  add("ReduceL2", kFloats, RunL2);
  add("ReduceLogSum", kFloats, RunLogSum);
  add("ReduceLogSumExp", kFloats, RunLogSumExp);
  registry.Add("cohort", "ReduceExtremumGrad",
               BoundKernel<Parameters>({3, 3, {kFloats}}, ParseReduceAxes, RunExtremumGrad));
  registry.Add("cohort", "ReduceProdGrad",
               BoundKernel<Parameters>({2, 2, {kFloats}}, ParseReduceAxes, RunProdGrad));
  registry.Add(
      "", "ArgMin",
      BoundKernel<ArgMaxParameters>({1, 1, {kNumbers}}, ParseArgMax, RunArgExtremum<true>));
  registry.Add(
      "", "ArgMax",
      BoundKernel<ArgMaxParameters>({1, 1, {kNumbers}}, ParseArgMax, RunArgExtremum<false>));
  registry.Add("", "CumSum",
               BoundKernel<CumSumParameters>({2, 2, {kSums, kIndices}}, ParseCumSum, RunCumSum));
  registry.Add("", "TopK",
               BoundKernel<TopKParameters>({2, 2, {kNumbers, kIndices}, 2}, ParseTopK, RunTopK));
}

}  // namespace cohort
