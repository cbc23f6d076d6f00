
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/dropout_support.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The arithmetic of the binary operators. The arithmetic of integers is unsigned, so an overflow
// wraps around.
struct AddOp {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};

struct SubOp {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};

struct MulOp {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

struct DivOp {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      // The lowest number divided by -1 does not fit the type; the quotient wraps to the lowest
      // number.
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
      }
      return static_cast<T>(a / b);
    }
  }
};

struct EqualOp {
  template <typename T>
  static bool Of(T a, T b) {
    return a == b;
  }
};

// Checks that an integer divisor contains no zero, because a division by zero would end the
// process. Floats divided by 0 give infinity or NaN.
template <typename T>
absl::Status CheckDivisor(const Tensor& divisor) {
  if constexpr (!std::is_floating_point_v<T>) {
    for (const T value : divisor.span<T>()) {
      if (value == T{0}) return absl::InvalidArgumentError("integer division by zero");
    }
  }
  return absl::OkStatus();
}

template <typename Op, typename T, typename Result>
absl::Status RunTyped(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  if constexpr (std::is_same_v<Op, DivOp>) RETURN_IF_ERROR(CheckDivisor<T>(b));
  ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(a.shape(), b.shape()));
  // An input that is smaller than the result has stride 0 along the axes on which its elements are
  // repeated.
  const std::vector<BroadcastAxis> axes = BroadcastAxes(a.shape(), b.shape(), shape);
  Result* out = context.Output(0, DTypeOf<Result>::value, shape).template mutable_data<Result>();
  const T* data_a = a.data<T>();
  const T* data_b = b.data<T>();
  const BroadcastAxis run = axes.back();
  ForEachRun(axes, [&](int64_t offset_a, int64_t offset_b, int64_t offset) {
    for (int64_t i = 0; i < run.size; ++i) {
      out[offset + i] =
          Op::Of(data_a[offset_a + i * run.stride_a], data_b[offset_b + i * run.stride_b]);
    }
  });
  return absl::OkStatus();
}

template <typename Op>
absl::Status RunArithmetic(KernelContext& context) {
  RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(1)));
  return DispatchNumbers(context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunTyped<Op, T, T>(context);
  });
}

absl::Status RunEqual(KernelContext& context) {
  RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(1)));
  return DispatchTypes(NativeTypes{}, context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunTyped<EqualOp, T, bool>(context);
  });
}

void AddBinary(KernelRegistry& registry) {
  registry.Add("", "Add", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<AddOp>));
  registry.Add("", "Sub", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<SubOp>));
  registry.Add("", "Mul", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<MulOp>));
  registry.Add("", "Div", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<DivOp>));
  registry.Add("", "Equal", PlainKernel({2, 2, {kNative}}, RunEqual));
}

using Function = double (*)(double);
using GradFunction = double (*)(double, double);

double Negate(double x) { return -x; }
double SquareRoot(double x) { return std::sqrt(x); }
double Exponential(double x) { return std::exp(x); }
double Logarithm(double x) { return std::log(x); }
double Rectify(double x) { return x < 0 ? 0 : x; }  // NaN < 0 is false, so a NaN stays NaN
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double HyperbolicTangent(double x) { return std::tanh(x); }

// The gradients are computed from the forward result y instead of x, so x need not be kept until
// the backward pass.
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

// Runs Neg or Relu. Unlike the other functions of this file, both also take signed integers.
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
      // The negation is unsigned, so the lowest number of the type wraps around to itself.
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

void AddUnary(KernelRegistry& registry) {
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

absl::Status RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 1));
  bool* mask = nullptr;
  if (context.output_wanted(1)) {
    mask = context.Output(1, DType::kBool, x.shape()).mutable_data<bool>();
  }
  RETURN_IF_ERROR(RequireTypeIn(x, kFloats));
  // Outside training mode Dropout drops nothing: every element of the mask is true, and y is x.
  if (!mode.training) {
    if (mask != nullptr) std::memset(mask, 1, static_cast<size_t>(x.num_elements()));
    if (context.output_wanted(0)) context.Forward(0, x);
    return absl::OkStatus();
  }
  const RandomStream stream = DropoutStream(parameters, context.run());
  const uint64_t first = FirstElement(context.run(), x.shape());
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.output_wanted(0)
                 ? context.Output(0, x.dtype(), x.shape()).template mutable_data<T>()
                 : nullptr;
    // The mask depends on an element's number in the global batch, so any split of the batch gives
    // the same mask.
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const bool keep = DropoutKeeps(stream, first + static_cast<uint64_t>(i), mode.Threshold());
      if (mask != nullptr) mask[i] = keep;
      if (out != nullptr) out[i] = static_cast<T>(keep ? x.data<T>()[i] * mode.Scale() : 0);
    }
    return absl::OkStatus();
  });
}

absl::Status RunDropoutGrad(KernelContext& context) {
  const Tensor& dy = context.input(0);
  const Tensor& mask = context.input(1);
  RETURN_IF_ERROR(RequireType(mask, DType::kBool));
  RETURN_IF_ERROR(RequireSameShape(dy, mask));
  ASSIGN_OR_RETURN(const DropoutMode mode, ReadDropoutMode(context, 2));
  RETURN_IF_ERROR(RequireTypeIn(dy, kFloats));
  if (!mode.training) {
    context.Forward(0, dy);
    return absl::OkStatus();
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, dy.dtype(), dy.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      out[i] = static_cast<T>(mask.data<bool>()[i] ? dy.data<T>()[i] * mode.Scale() : 0);
    }
    return absl::OkStatus();
  });
}

// RandomNormalLike draws from a stream that is chosen as that of Dropout.
struct NormalParameters {
  DropoutParameters stream;
  double mean = 0;
  double scale = 1;
};

// The element type is that of the input: an attribute `dtype` is refused.
NormalParameters ParseNormal(AttributeReader& reader) {
  NormalParameters parameters;
  const onnx::NodeProto& node = reader.node();
  parameters.stream.name =
      !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  parameters.stream.has_seed = reader.Has("seed");
  // Unlike Dropout's, this seed is a float.
  parameters.stream.seed = std::bit_cast<int32_t>(reader.Float("seed", 0));
  parameters.mean = static_cast<double>(reader.Float("mean", 0));
  parameters.scale = static_cast<double>(reader.Float("scale", 1));
  return parameters;
}

absl::Status RunRandomNormalLike(KernelContext& context, const NormalParameters& parameters) {
  const Tensor& x = context.input(0);
  RETURN_IF_ERROR(RequireTypeIn(x, kFloats));
  const RandomStream stream = DropoutStream(parameters.stream, context.run());
  const uint64_t first = FirstElement(context.run(), x.shape());
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* out = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double normal = static_cast<double>(stream.Normal(first + static_cast<uint64_t>(i)));
      out[i] = static_cast<T>(parameters.mean + parameters.scale * normal);
    }
    return absl::OkStatus();
  });
}

void AddDropout(KernelRegistry& registry) {
  registry.Add("", "Dropout",
               BoundKernel<DropoutParameters>({1, 3, {kFloats, kNumbers, kBools}, 2}, ParseDropout,
                                              RunDropout));
  registry.Add("cohort", "DropoutGrad",
               PlainKernel({2, 4, {kFloats, kBools, kNumbers, kBools}}, RunDropoutGrad));
  registry.Add("", "RandomNormalLike",
               BoundKernel<NormalParameters>({1, 1, {kFloats}}, ParseNormal, RunRandomNormalLike));
}

}  // namespace

void RegisterReferenceElementwise(KernelRegistry& registry) {
  AddBinary(registry);
  AddUnary(registry);
  AddDropout(registry);
}

}  // namespace cohort
