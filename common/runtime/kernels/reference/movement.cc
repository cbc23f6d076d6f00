#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/transpose_shape.h"

namespace cohort {

namespace {

absl::Status RunTranspose(KernelContext& context, const TransposeParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const TransposeShape shape, ResolveTranspose(input.shape(), parameters));
  if (shape.axes.empty() || input.num_elements() == 0) {
    // If no element moves, the result shares the input's bytes.
    context.Forward(0, input.Reshaped(shape.result));
    return absl::OkStatus();
  }
  const size_t size = ElementSize(input.dtype());
  Tensor& output = context.Output(0, input.dtype(), shape.result);
  // The loop walks over the output in memory order. Each step changes the position in the input by
  // the axes' strides.
  std::vector<int64_t> index(shape.axes.size(), 0);
  int64_t from = 0;
  for (int64_t to = 0; to < output.num_elements(); ++to) {
    std::memcpy(output.mutable_raw() + static_cast<size_t>(to) * size,
                input.raw() + static_cast<size_t>(from) * size, size);
    for (size_t axis = index.size(); axis > 0; --axis) {
      from += shape.axes[axis - 1].stride;
      if (++index[axis - 1] < shape.axes[axis - 1].size) break;
      from -= shape.axes[axis - 1].stride * shape.axes[axis - 1].size;
      index[axis - 1] = 0;
    }
  }
  return absl::OkStatus();
}

struct ConcatParameters {
  int64_t axis = 0;
};

ConcatParameters ParseConcat(AttributeReader& reader) {
  if (!reader.Has("axis")) reader.Fail("attribute 'axis' is missing");
  return {reader.Int("axis", 0)};
}

// Returns the shape of the concatenation, along the axis, of all inputs from `first` on.
absl::StatusOr<Shape> ConcatShape(const KernelContext& context, int first, int axis) {
  const Shape& model = context.input(first).shape();
  absl::InlinedVector<int64_t, 4> dims(model.dims().begin(), model.dims().end());
  for (int i = first + 1; i < context.num_inputs(); ++i) {
    const Shape& part = context.input(i).shape();
    bool fits = part.rank() == model.rank();
    for (int each = 0; fits && each < part.rank(); ++each) {
      fits = each == axis || part.dim(each) == model.dim(each);
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parts ", model.ToString(), " and ", part.ToString(), " do not fit along axis ", axis));
    }
    dims[static_cast<size_t>(axis)] += part.dim(axis);
  }
  return Shape(absl::MakeConstSpan(dims));
}

absl::Status RunConcat(KernelContext& context, const ConcatParameters& parameters) {
  const Tensor& first = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, first.shape().rank()));
  for (int i = 1; i < context.num_inputs(); ++i) {
    RETURN_IF_ERROR(RequireSameType(first, context.input(i)));
  }
  ASSIGN_OR_RETURN(const Shape shape, ConcatShape(context, 0, axis));
  const AxisView view = ViewAroundAxis(shape, axis);
  const size_t unit = static_cast<size_t>(view.inner) * ElementSize(first.dtype());
  std::byte* out = context.Output(0, first.dtype(), shape).mutable_raw();
  // For each index along the axes before the concatenated one, every input contributes one
  // contiguous block of bytes.
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& part = context.input(i);
      const size_t bytes = static_cast<size_t>(part.shape().dim(axis)) * unit;
      if (bytes > 0) std::memcpy(out, part.raw() + static_cast<size_t>(outer) * bytes, bytes);
      out += bytes;
    }
  }
  return absl::OkStatus();
}

absl::Status RunConcatGrad(KernelContext& context, const ConcatParameters& parameters) {
  const Tensor& dy = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, dy.shape().rank()));
  ASSIGN_OR_RETURN(const Shape shape, ConcatShape(context, 1, axis));
  if (shape != dy.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dy.TypeString(), " where the parts give ", shape.ToString()));
  }
  const AxisView view = ViewAroundAxis(shape, axis);
  const size_t unit = static_cast<size_t>(view.inner) * ElementSize(dy.dtype());
  // A row of dy (one index along the axes before the concatenated one) holds one block of bytes for
  // each output; the blocks of unwanted outputs are skipped.
  const size_t row = static_cast<size_t>(view.size) * unit;
  size_t begin = 0;
  for (int i = 1; i < context.num_inputs(); ++i) {
    const Shape part = context.input(i).shape();
    const size_t bytes = static_cast<size_t>(part.dim(axis)) * unit;
    if (context.output_wanted(i - 1)) {
      std::byte* out = context.Output(i - 1, dy.dtype(), part).mutable_raw();
      for (int64_t outer = 0; outer < view.outer && bytes > 0; ++outer, out += bytes) {
        std::memcpy(out, dy.raw() + static_cast<size_t>(outer) * row + begin, bytes);
      }
    }
    begin += bytes;
  }
  return absl::OkStatus();
}

struct CastParameters {
  DType to = DType::kUndefined;
};

CastParameters ParseCast(AttributeReader& reader) {
  const int64_t to = reader.Int("to", 0);
  const absl::StatusOr<DType> dtype =
      to < 0 || to > 1000 ? DType::kUndefined : DTypeFromNumber(static_cast<int32_t>(to));
  if (!dtype.ok() || !kNative.Contains(*dtype)) {
    reader.Fail(absl::StrCat("cannot cast to element type ", to, ", only to ", kNative.ToString()));
    return {};
  }
  return {*dtype};
}

// Converts one element. C++ leaves some conversions to integers undefined; here a float outside the
// integer's range becomes the nearest end of the range, and NaN becomes 0.
template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return To{0};
    // Converted to the type From, the largest number of type To may be rounded up to a power of
    // two. A value that equals this power also becomes the largest number of type To.
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    if (value <= static_cast<From>(std::numeric_limits<To>::lowest())) {
      return std::numeric_limits<To>::lowest();
    }
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

absl::Status RunCast(KernelContext& context, const CastParameters& parameters) {
  const Tensor& input = context.input(0);
  if (input.dtype() == parameters.to) {
    context.Forward(0, input);
    return absl::OkStatus();
  }
  // DispatchTypes takes the type from a tensor, so an empty tensor of the target type is made for
  // it.
  const Tensor target(parameters.to, Shape{0});
  return DispatchTypes(NativeTypes{}, input, [&](auto from_tag) {
    return DispatchTypes(NativeTypes{}, target, [&](auto to_tag) {
      using From = typename decltype(from_tag)::Type;
      using To = typename decltype(to_tag)::Type;
      To* out = context.Output(0, parameters.to, input.shape()).template mutable_data<To>();
      for (const From value : input.span<From>()) *out++ = Convert<To>(value);
      return absl::OkStatus();
    });
  });
}

}  // namespace

void RegisterReferenceMovement(KernelRegistry& registry) {
  registry.Add("", "Transpose",
               BoundKernel<TransposeParameters>({1, 1, {kAnyType}}, ParseTranspose, RunTranspose));
  registry.Add("", "Concat",
               BoundKernel<ConcatParameters>({1, kAnyNumber, {kAnyType}}, ParseConcat, RunConcat));
  registry.Add("cohort", "ConcatGrad",
               BoundKernel<ConcatParameters>({2, kAnyNumber, {kAnyType}, kAnyNumber}, ParseConcat,
                                             RunConcatGrad));
  registry.Add("", "Cast",
               BoundKernel<CastParameters>({1, 1, {kNative}, 1, kNative}, ParseCast, RunCast));
}

}  // namespace cohort
