// The kernels of Split, Trilu, ReverseSequence, Range and ConstantOfShape.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/program/tensor_proto.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

struct SplitParameters {
  int64_t axis = 0;
  int64_t outputs = 0;
};

SplitParameters ParseSplit(AttributeReader& reader) {
  return {reader.Int("axis", 0), reader.node().output_size()};
}

// Returns the extents of Split's outputs along the axis: the elements of the input `split` if it
// has a value, else equal extents. Errors: INVALID_ARGUMENT if the extents do not add up to `size`.
absl::StatusOr<std::vector<int64_t>> SplitSizes(const Tensor& split, int64_t outputs,
                                                int64_t size) {
  std::vector<int64_t> sizes(static_cast<size_t>(outputs), size / outputs);
  if (split.has_value()) {
    ASSIGN_OR_RETURN(sizes, ToInt64s(split));
  }
  int64_t left = size;
  for (const int64_t each : sizes) {
    // Each extent is compared with what is left of the axis; a sum of the extents could overflow.
    if (each < 0 || each > left) left = -1;
    if (left < 0) break;
    left -= each;
  }
  if (left != 0 || static_cast<int64_t>(sizes.size()) != outputs) {
    return absl::InvalidArgumentError(absl::StrCat("an axis of ", size, " cannot be cut into ",
                                                   outputs, " outputs by these sizes"));
  }
  return sizes;
}

absl::Status RunSplit(KernelContext& context, const SplitParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, input.shape().rank()));
  const AxisView view = ViewAroundAxis(input.shape(), axis);
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                   SplitSizes(InputOr(context, 1), parameters.outputs, view.size));
  const size_t unit = static_cast<size_t>(view.inner) * ElementSize(input.dtype());
  const size_t row = static_cast<size_t>(view.size) * unit;
  absl::InlinedVector<int64_t, 4> dims(input.shape().dims().begin(), input.shape().dims().end());
  size_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t bytes = static_cast<size_t>(sizes[i]) * unit;
    if (context.output_wanted(static_cast<int>(i))) {
      dims[static_cast<size_t>(axis)] = sizes[i];
      const Shape shape(absl::MakeConstSpan(dims));
      std::byte* out = context.Output(static_cast<int>(i), input.dtype(), shape).mutable_raw();
      for (int64_t outer = 0; outer < view.outer && bytes > 0; ++outer, out += bytes) {
        std::memcpy(out, input.raw() + static_cast<size_t>(outer) * row + begin, bytes);
      }
    }
    begin += bytes;
  }
  return absl::OkStatus();
}

struct TriluParameters {
  bool upper = true;
};

TriluParameters ParseTrilu(AttributeReader& reader) { return {reader.Flag("upper", true)}; }

absl::Status RunTrilu(KernelContext& context, const TriluParameters& parameters) {
  const Tensor& input = context.input(0);
  const int rank = input.shape().rank();
  if (rank < 2) {
    return absl::InvalidArgumentError(absl::StrCat("needs matrices, not ", input.TypeString()));
  }
  const int64_t rows = input.shape().dim(rank - 2);
  const int64_t columns = input.shape().dim(rank - 1);
  int64_t diagonal = 0;
  if (InputOr(context, 1).has_value()) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(context.input(1)));
    if (values.size() != 1) return absl::InvalidArgumentError("k is not a scalar");
    // All diagonals beyond a corner of the matrix have the same effect. So `diagonal` can be
    // limited, which keeps row + diagonal from overflowing.
    diagonal = std::clamp(values[0], -rows - 1, columns + 1);
  }
  const size_t size = ElementSize(input.dtype());
  std::byte* out = context.Output(0, input.dtype(), input.shape()).mutable_raw();
  const std::byte* in = input.raw();
  for (int64_t at = 0; at < input.num_elements(); ++at, out += size, in += size) {
    const int64_t row = at / columns % rows;
    const int64_t column = at % columns;
    const bool keeps = parameters.upper ? column >= row + diagonal : column <= row + diagonal;
    if (keeps) std::memcpy(out, in, size);
    if (!keeps) std::memset(out, 0, size);
  }
  return absl::OkStatus();
}

struct ReverseParameters {
  int64_t batch_axis = 1;
  int64_t time_axis = 0;
};

ReverseParameters ParseReverse(AttributeReader& reader) {
  const ReverseParameters parameters = {reader.Int("batch_axis", 1), reader.Int("time_axis", 0)};
  const bool first = parameters.batch_axis == 0 && parameters.time_axis == 1;
  const bool second = parameters.batch_axis == 1 && parameters.time_axis == 0;
  if (!first && !second) reader.Fail("batch_axis and time_axis must be 0 and 1, or 1 and 0");
  return parameters;
}

absl::Status RunReverse(KernelContext& context, const ReverseParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, ToInt64s(context.input(1)));
  if (input.shape().rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs sequences of a batch, not ", input.TypeString()));
  }
  const int64_t batch = input.shape().dim(static_cast<int>(parameters.batch_axis));
  const int64_t time = input.shape().dim(static_cast<int>(parameters.time_axis));
  if (static_cast<int64_t>(lengths.size()) != batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(lengths.size(), " lengths for a batch of ", batch));
  }
  for (const int64_t length : lengths) {
    if (length < 0 || length > time) {
      return absl::InvalidArgumentError(
          absl::StrCat("length ", length, " is not in [0, ", time, "]"));
    }
  }
  const Shape& shape = input.shape();
  Tensor& output = context.Output(0, input.dtype(), shape);
  if (output.num_bytes() == 0) return absl::OkStatus();
  const size_t row = output.num_bytes() / static_cast<size_t>(batch * time);
  for (int64_t example = 0; example < batch; ++example) {
    const int64_t length = lengths[static_cast<size_t>(example)];
    for (int64_t step = 0; step < time; ++step) {
      const int64_t from = step < length ? length - 1 - step : step;
      const auto place = [&](int64_t at) {
        return static_cast<size_t>(parameters.batch_axis == 0 ? example * time + at
                                                              : at * batch + example) *
               row;
      };
      std::memcpy(output.mutable_raw() + place(step), input.raw() + place(from), row);
    }
  }
  return absl::OkStatus();
}

// Returns the number of elements of start, start + delta, ... before limit. Errors:
// INVALID_ARGUMENT for a delta of 0, and if the number is NaN or larger than kNewElementsMax.
template <typename T>
absl::StatusOr<int64_t> RangeCount(T start, T limit, T delta) {
  double count = 0;
  bool finite = true;
  if constexpr (std::is_floating_point_v<T>) {
    finite = std::isfinite(start) && std::isfinite(limit) && std::isfinite(delta);
    count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                      static_cast<double>(delta));
  } else if (delta != T{0} && (limit > start) == (delta > T{0}) && limit != start) {
    // The difference of two int64 numbers may not fit an int64, but it fits a uint64.
    const uint64_t from = static_cast<uint64_t>(delta > 0 ? start : limit);
    const uint64_t distance = static_cast<uint64_t>(delta > 0 ? limit : start) - from;
    const uint64_t step =
        delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
    count = static_cast<double>((distance - 1) / step + 1);
  }
  if (!finite) {
    return absl::InvalidArgumentError(absl::StrCat("the range from ", start, " to ", limit, " by ",
                                                   delta, " needs finite numbers"));
  }
  // The comparison is written so that NaN, which two zeros give, is refused, too.
  if (delta == T{0} || !(count <= static_cast<double>(kNewElementsMax))) {
    return absl::InvalidArgumentError(absl::StrCat("the range from ", start, " to ", limit, " by ",
                                                   delta, " has no end or too many elements"));
  }
  return static_cast<int64_t>(std::max(count, 0.0));
}

absl::Status RunRange(KernelContext& context) {
  for (int i = 0; i < 3; ++i) {
    RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(i)));
    if (context.input(i).num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs scalars, not ", context.input(i).TypeString()));
    }
  }
  return DispatchTypes(SumTypes{}, context.input(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T start = *context.input(0).data<T>();
    const T delta = *context.input(2).data<T>();
    ASSIGN_OR_RETURN(const int64_t count, RangeCount(start, *context.input(1).data<T>(), delta));
    T* out = context.Output(0, DTypeOf<T>::value, Shape{count}).template mutable_data<T>();
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        out[i] = static_cast<T>(static_cast<double>(start) +
                                static_cast<double>(i) * static_cast<double>(delta));
      } else {
        out[i] = static_cast<T>(static_cast<uint64_t>(start) +
                                static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      }
    }
    return absl::OkStatus();
  });
}

struct FillParameters {
  Tensor value;
};

FillParameters ParseFill(AttributeReader& reader) {
  const onnx::AttributeProto* const value = reader.Raw("value");
  if (value == nullptr) return {Tensor::Scalar<float>(0)};
  absl::StatusOr<Tensor> tensor = FromTensorProto(value->t());
  if (!tensor.ok()) {
    reader.Fail(std::string(tensor.status().message()));
  } else if (tensor->num_elements() != 1) {
    reader.Fail(absl::StrCat("the value is ", tensor->TypeString(), ", not one element"));
  } else {
    return {*std::move(tensor)};
  }
  return {};
}

absl::Status RunFill(KernelContext& context, const FillParameters& parameters) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ToInt64s(context.input(0)));
  ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims));
  const Tensor& value = parameters.value;
  const size_t size = ElementSize(value.dtype());
  Tensor& output = context.Output(0, value.dtype(), shape);
  for (size_t at = 0; at < output.num_bytes(); at += size) {
    std::memcpy(output.mutable_raw() + at, value.raw(), size);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterReferenceMovementParts(KernelRegistry& registry) {
  registry.Add(
      "", "Split",
      BoundKernel<SplitParameters>({1, 2, {kAnyType, kIndices}, kAnyNumber}, ParseSplit, RunSplit));
  registry.Add("", "Trilu",
               BoundKernel<TriluParameters>({1, 2, {kAnyType, kIndices}}, ParseTrilu, RunTrilu));
  registry.Add(
      "", "ReverseSequence",
      BoundKernel<ReverseParameters>({2, 2, {kAnyType, kIndices}}, ParseReverse, RunReverse));
  registry.Add("", "Range", PlainKernel({3, 3, {kSums}}, RunRange));
  registry.Add("", "ConstantOfShape",
               BoundKernel<FillParameters>({1, 1, {kIndices}}, ParseFill, RunFill));
}

}  // namespace cohort
