#include <limits>
#include <type_traits>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The arithmetic of the binary operators. Integers wrap: their arithmetic is unsigned.
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
      // The lowest number divided by -1 does not fit the type; it wraps to itself.
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

// Integer division by zero would end the process; floats give infinity or NaN.
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
  // A stride of 0 repeats an element of the smaller input.
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

}  // namespace

void RegisterReferenceBinary(KernelRegistry& registry) {
  registry.Add("", "Add", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<AddOp>));
  registry.Add("", "Sub", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<SubOp>));
  registry.Add("", "Mul", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<MulOp>));
  registry.Add("", "Div", PlainKernel({2, 2, {kNumbers}}, RunArithmetic<DivOp>));
  registry.Add("", "Equal", PlainKernel({2, 2, {kNative}}, RunEqual));
}

}  // namespace cohort
