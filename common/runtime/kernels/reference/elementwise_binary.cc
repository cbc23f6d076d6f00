// The kernels of comparisons, of logic, of Where and Clip, and of the arithmetic of several tensors
// that is not in elementwise.cc.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// Computes output 0 = function(a, b) where a and b are inputs 0 and 1, of the types A and B,
// broadcast to one shape.
template <typename A, typename B, typename Result, typename Function>
absl::Status Map(KernelContext& context, Function function) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(a.shape(), b.shape()));
  const std::vector<BroadcastAxis> axes = BroadcastAxes(a.shape(), b.shape(), shape);
  Result* out = context.Output(0, DTypeOf<Result>::value, shape).template mutable_data<Result>();
  const A* data_a = a.data<A>();
  const B* data_b = b.data<B>();
  const BroadcastAxis run = axes.back();
  ForEachRun(axes, [&](int64_t offset_a, int64_t offset_b, int64_t offset) {
    for (int64_t i = 0; i < run.size; ++i) {
      out[offset + i] =
          function(data_a[offset_a + i * run.stride_a], data_b[offset_b + i * run.stride_b]);
    }
  });
  return absl::OkStatus();
}

struct LessOp {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b;
  }
};

struct LessOrEqualOp {
  template <typename T>
  static bool Of(T a, T b) {
    return a <= b;
  }
};

struct GreaterOp {
  template <typename T>
  static bool Of(T a, T b) {
    return a > b;
  }
};

struct GreaterOrEqualOp {
  template <typename T>
  static bool Of(T a, T b) {
    return a >= b;
  }
};

template <typename Op>
absl::Status RunComparison(KernelContext& context) {
  RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(1)));
  return DispatchNumbers(context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Map<T, T, bool>(context, [](T a, T b) { return Op::Of(a, b); });
  });
}

struct AndOp {
  static bool Of(bool a, bool b) { return a && b; }
};

struct OrOp {
  static bool Of(bool a, bool b) { return a || b; }
};

struct XorOp {
  static bool Of(bool a, bool b) { return a != b; }
};

template <typename Op>
absl::Status RunLogic(KernelContext& context) {
  RETURN_IF_ERROR(RequireType(context.input(0), DType::kBool));
  RETURN_IF_ERROR(RequireType(context.input(1), DType::kBool));
  return Map<bool, bool, bool>(context, [](bool a, bool b) { return Op::Of(a, b); });
}

// Returns base^exponent for integers; an overflow wraps around. A negative exponent gives 1 /
// base^-exponent rounded towards 0, which is 0 for all bases but 1 and -1; base 0 gives 0.
int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (uint64_t square = static_cast<uint64_t>(base); exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

// Converts a power to the integer type of its base. C++ leaves the conversion of numbers outside
// the range of int64 undefined, so powers are limited to [-kLimit, kLimit] first, and NaN becomes
// 0.
template <typename T>
T ToInteger(double power) {
  constexpr double kLimit = 9223372036854774784.0;  // the largest double below 2^63
  if (std::isnan(power)) return T{0};
  return static_cast<T>(static_cast<int64_t>(std::clamp(power, -kLimit, kLimit)));
}

template <typename Base, typename Exponent>
Base Power(Base base, Exponent exponent) {
  if constexpr (std::is_integral_v<Base> && std::is_integral_v<Exponent>) {
    return static_cast<Base>(IntegerPower(base, exponent));
  } else {
    const double power = std::pow(static_cast<double>(base), static_cast<double>(exponent));
    if constexpr (std::is_integral_v<Base>) return ToInteger<Base>(power);
    return static_cast<Base>(power);
  }
}

// The types of Pow's base and exponent may differ.
absl::Status RunPow(KernelContext& context) {
  return DispatchTypes(SumTypes{}, context.input(0), [&](auto base) {
    return DispatchNumbers(context.input(1), [&](auto exponent) {
      using A = typename decltype(base)::Type;
      using B = typename decltype(exponent)::Type;
      return Map<A, B, A>(context, [](A a, B b) { return Power(a, b); });
    });
  });
}

// Returns the remainder of the division of two integers, with the divisor's sign as in Python.
template <typename T>
T Remainder(T a, T b) {
  // The quotient of the lowest number and -1 does not fit the type, but the remainder is 0.
  if (b == static_cast<T>(-1)) return T{0};
  const T rest = static_cast<T>(a % b);
  return rest != T{0} && (rest < T{0}) != (b < T{0}) ? static_cast<T>(rest + b) : rest;
}

// The attribute of Mod: if `fmod` is set, the result has the sign of the dividend, as in C, else
// the sign of the divisor.
struct ModParameters {
  bool fmod = false;
};

ModParameters ParseMod(AttributeReader& reader) { return {reader.Flag("fmod", false)}; }

absl::Status RunMod(KernelContext& context, const ModParameters& parameters) {
  const Tensor& b = context.input(1);
  RETURN_IF_ERROR(RequireSameType(context.input(0), b));
  return DispatchNumbers(b, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_floating_point_v<T>) {
      if (!parameters.fmod) {
        return absl::InvalidArgumentError("the remainder of floats needs fmod = 1");
      }
      return Map<T, T, T>(context, [](T x, T y) { return std::fmod(x, y); });
    } else {
      const auto divisors = b.span<T>();
      if (std::find(divisors.begin(), divisors.end(), T{0}) != divisors.end()) {
        return absl::InvalidArgumentError("integer division by zero");
      }
      if (!parameters.fmod) return Map<T, T, T>(context, Remainder<T>);
      return Map<T, T, T>(
          context, [](T x, T y) { return y == static_cast<T>(-1) ? T{0} : static_cast<T>(x % y); });
    }
  });
}

absl::Status RunPRelu(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& slope = context.input(1);
  RETURN_IF_ERROR(RequireSameType(x, slope));
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(x.shape(), slope.shape()));
  if (shape != x.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slope ", slope.TypeString(), " does not broadcast to ", x.TypeString()));
  }
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Map<T, T, T>(context,
                        [](T value, T factor) { return value < T{0} ? factor * value : value; });
  });
}

// Returns the shape to which all inputs from number `first` on broadcast. Errors: INVALID_ARGUMENT
// for inputs of different types, or shapes that do not broadcast.
absl::StatusOr<Shape> CommonShape(const KernelContext& context, int first) {
  Shape shape = context.input(first).shape();
  for (int i = first + 1; i < context.num_inputs(); ++i) {
    RETURN_IF_ERROR(RequireSameType(context.input(first), context.input(i)));
    ASSIGN_OR_RETURN(shape, BroadcastShape(shape, context.input(i).shape()));
  }
  return shape;
}

// Broadcasts `tensor` to `shape` and calls take(offset, value) for each element of the result.
template <typename T, typename Take>
void ForEachElement(const Tensor& tensor, const Shape& shape, Take take) {
  const std::vector<BroadcastAxis> axes = BroadcastAxes(tensor.shape(), tensor.shape(), shape);
  const BroadcastAxis run = axes.back();
  const T* data = tensor.data<T>();
  ForEachRun(axes, [&](int64_t from, int64_t, int64_t to) {
    for (int64_t i = 0; i < run.size; ++i) take(to + i, data[from + i * run.stride_a]);
  });
}

struct Larger {
  template <typename T>
  static bool Keeps(T best, T next) {
    // A NaN among the inputs of Max or Min is the result: it replaces every number and is never
    // replaced.
    return best >= next || best != best;
  }
};

struct Smaller {
  template <typename T>
  static bool Keeps(T best, T next) {
    return best <= next || best != best;
  }
};

template <typename Order>
absl::Status RunExtremum(KernelContext& context) {
  ASSIGN_OR_RETURN(const Shape shape, CommonShape(context, 0));
  return DispatchNumbers(context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, DTypeOf<T>::value, shape).template mutable_data<T>();
    ForEachElement<T>(context.input(0), shape, [&](int64_t at, T value) { out[at] = value; });
    for (int i = 1; i < context.num_inputs(); ++i) {
      ForEachElement<T>(context.input(i), shape, [&](int64_t at, T value) {
        if (!Order::Keeps(out[at], value)) out[at] = value;
      });
    }
    return absl::OkStatus();
  });
}

struct MaxGradParameters {
  bool minimum = false;
};

MaxGradParameters ParseMaxGrad(AttributeReader& reader) { return {reader.Flag("minimum", false)}; }

// Returns, for each element of the result of Max or Min, the number of the input of MaxGrad that
// holds the largest (or smallest) element, counted from 1.
template <typename Order, typename T>
std::vector<int> Winners(const KernelContext& context, const Shape& shape) {
  std::vector<int> winners(static_cast<size_t>(shape.num_elements()), 1);
  std::vector<T> best(winners.size());
  ForEachElement<T>(context.input(1), shape,
                    [&](int64_t at, T value) { best[static_cast<size_t>(at)] = value; });
  for (int i = 2; i < context.num_inputs(); ++i) {
    ForEachElement<T>(context.input(i), shape, [&](int64_t at, T value) {
      const size_t place = static_cast<size_t>(at);
      if (Order::Keeps(best[place], value)) return;
      best[place] = value;
      winners[place] = i;
    });
  }
  return winners;
}

absl::Status RunMaxGrad(KernelContext& context, const MaxGradParameters& parameters) {
  const Tensor& dy = context.input(0);
  RETURN_IF_ERROR(RequireSameType(dy, context.input(1)));
  ASSIGN_OR_RETURN(const Shape shape, CommonShape(context, 1));
  if (dy.shape() != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dy.TypeString(), " of a result of shape ", shape.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const std::vector<int> winners = parameters.minimum ? Winners<Smaller, T>(context, shape)
                                                        : Winners<Larger, T>(context, shape);
    for (int i = 1; i < context.num_inputs(); ++i) {
      // MaxGrad's input 0 is dy, so output i - 1 is the gradient of input i.
      if (!context.output_wanted(i - 1)) continue;
      T* dx = context.Output(i - 1, dy.dtype(), shape).template mutable_data<T>();
      for (size_t at = 0; at < winners.size(); ++at) {
        dx[at] = winners[at] == i ? dy.data<T>()[at] : T{0};
      }
    }
    return absl::OkStatus();
  });
}

template <bool kMean>
absl::Status RunSum(KernelContext& context) {
  ASSIGN_OR_RETURN(const Shape shape, CommonShape(context, 0));
  return DispatchFloats(context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<double> sums(static_cast<size_t>(shape.num_elements()), 0);
    for (int i = 0; i < context.num_inputs(); ++i) {
      ForEachElement<T>(context.input(i), shape, [&](int64_t at, T value) {
        sums[static_cast<size_t>(at)] += static_cast<double>(value);
      });
    }
    const double count = kMean ? context.num_inputs() : 1;
    T* out = context.Output(0, DTypeOf<T>::value, shape).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum / count);
    return absl::OkStatus();
  });
}

// The bounds of Clip and ClipGrad: the values of two optional scalars.
template <typename T>
struct Bounds {
  const T* min = nullptr;
  const T* max = nullptr;
};

// Reads the minimum from input `first` and the maximum from input first + 1; either may be absent.
// Errors: INVALID_ARGUMENT for a bound that is not a scalar of the type of `x`.
template <typename T>
absl::StatusOr<Bounds<T>> ReadBounds(const KernelContext& context, int first, const Tensor& x) {
  Bounds<T> bounds;
  for (const int i : {first, first + 1}) {
    const Tensor& bound = InputOr(context, i);
    if (!bound.has_value()) continue;
    RETURN_IF_ERROR(RequireSameType(x, bound));
    if (bound.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("a bound is ", bound.TypeString(), ", not a scalar"));
    }
    (i == first ? bounds.min : bounds.max) = bound.data<T>();
  }
  return bounds;
}

absl::Status RunClip(KernelContext& context) {
  const Tensor& x = context.input(0);
  return DispatchNumbers(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ASSIGN_OR_RETURN(const Bounds<T> bounds, ReadBounds<T>(context, 1, x));
    T* y = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (T value : x.span<T>()) {
      // The minimum is applied first, so if min is larger than max, the result is max. A NaN stays
      // NaN.
      if (bounds.min != nullptr && value < *bounds.min) value = *bounds.min;
      if (bounds.max != nullptr && value > *bounds.max) value = *bounds.max;
      *y++ = value;
    }
    return absl::OkStatus();
  });
}

absl::Status RunClipGrad(KernelContext& context) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, x));
  RETURN_IF_ERROR(RequireSameShape(dy, x));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ASSIGN_OR_RETURN(const Bounds<T> bounds, ReadBounds<T>(context, 2, x));
    T* dx = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const T value = x.data<T>()[i];
      const bool below = bounds.min != nullptr && value < *bounds.min;
      const bool above = bounds.max != nullptr && value > *bounds.max;
      dx[i] = below || above ? T{0} : dy.data<T>()[i];
    }
    return absl::OkStatus();
  });
}

// Runs Where on elements of kSize bytes: copies input 2, broadcast to the result, and then
// overwrites with input 1 the elements at which the condition holds.
template <size_t kSize>
void Select(const KernelContext& context, Tensor& output) {
  const Tensor& condition = context.input(0);
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  const Shape& shape = output.shape();
  std::byte* const out = output.mutable_raw();
  const auto copy = [](std::byte* to, const std::byte* from) { std::memcpy(to, from, kSize); };
  const std::vector<BroadcastAxis> plain = BroadcastAxes(no.shape(), no.shape(), shape);
  const BroadcastAxis run = plain.back();
  ForEachRun(plain, [&](int64_t from, int64_t, int64_t to) {
    for (int64_t i = 0; i < run.size; ++i) {
      copy(out + static_cast<size_t>(to + i) * kSize,
           no.raw() + static_cast<size_t>(from + i * run.stride_a) * kSize);
    }
  });
  const bool* const holds = condition.data<bool>();
  const std::vector<BroadcastAxis> axes = BroadcastAxes(condition.shape(), yes.shape(), shape);
  const BroadcastAxis line = axes.back();
  ForEachRun(axes, [&](int64_t at, int64_t from, int64_t to) {
    for (int64_t i = 0; i < line.size; ++i) {
      if (!holds[at + i * line.stride_a]) continue;
      copy(out + static_cast<size_t>(to + i) * kSize,
           yes.raw() + static_cast<size_t>(from + i * line.stride_b) * kSize);
    }
  });
}

absl::Status RunWhere(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  RETURN_IF_ERROR(RequireType(condition, DType::kBool));
  RETURN_IF_ERROR(RequireSameType(yes, no));
  ASSIGN_OR_RETURN(const Shape both, BroadcastShape(yes.shape(), no.shape()));
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(condition.shape(), both));
  Tensor& output = context.Output(0, yes.dtype(), shape);
  switch (ElementSize(yes.dtype())) {
    case 1:
      Select<1>(context, output);
      break;
    case 2:
      Select<2>(context, output);
      break;
    case 4:
      Select<4>(context, output);
      break;
    default:
      Select<8>(context, output);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterReferenceElementwiseBinary(KernelRegistry& registry) {
  const Signature compared = {2, 2, {kNumbers}};
  registry.Add("", "Less", PlainKernel(compared, RunComparison<LessOp>));
  registry.Add("", "LessOrEqual", PlainKernel(compared, RunComparison<LessOrEqualOp>));
  registry.Add("", "Greater", PlainKernel(compared, RunComparison<GreaterOp>));
  registry.Add("", "GreaterOrEqual", PlainKernel(compared, RunComparison<GreaterOrEqualOp>));
  registry.Add("", "And", PlainKernel({2, 2, {kBools}}, RunLogic<AndOp>));
  registry.Add("", "Or", PlainKernel({2, 2, {kBools}}, RunLogic<OrOp>));
  registry.Add("", "Xor", PlainKernel({2, 2, {kBools}}, RunLogic<XorOp>));
  registry.Add("", "Pow", PlainKernel({2, 2, {kSums, kNumbers}}, RunPow));
  registry.Add("", "Mod", BoundKernel<ModParameters>({2, 2, {kNumbers}}, ParseMod, RunMod));
  registry.Add("", "PRelu", PlainKernel({2, 2, {kFloats}}, RunPRelu));
  registry.Add("", "Max", PlainKernel({1, kAnyNumber, {kNumbers}}, RunExtremum<Larger>));
  registry.Add("", "Min", PlainKernel({1, kAnyNumber, {kNumbers}}, RunExtremum<Smaller>));
  registry.Add("", "Sum", PlainKernel({1, kAnyNumber, {kFloats}}, RunSum<false>));
  registry.Add("", "Mean", PlainKernel({1, kAnyNumber, {kFloats}}, RunSum<true>));
  registry.Add("cohort", "MaxGrad",
               BoundKernel<MaxGradParameters>({2, kAnyNumber, {kFloats}, kAnyNumber}, ParseMaxGrad,
                                              RunMaxGrad));
  registry.Add("", "Clip", PlainKernel({1, 3, {kNumbers}}, RunClip));
  registry.Add("cohort", "ClipGrad", PlainKernel({2, 4, {kFloats}}, RunClipGrad));
  registry.Add("", "Where", PlainKernel({3, 3, {kBools, kAnyType, kAnyType}}, RunWhere));
}

}  // namespace cohort
