#include <cmath>
#include <cstring>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

struct AxisParameters {
  int64_t axis = 0;
};

AxisParameters ParseGather(AttributeReader& reader) { return {reader.Int("axis", 0)}; }
AxisParameters ParseOneHot(AttributeReader& reader) { return {reader.Int("axis", -1)}; }

// Returns Gather's indices, with `size` added to negative ones. Errors: INVALID_ARGUMENT naming the
// first index outside [-size, size).
absl::StatusOr<std::vector<int64_t>> ReadIndices(const Tensor& tensor, int64_t size) {
  ASSIGN_OR_RETURN(std::vector<int64_t> indices, ToInt64s(tensor));
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < -size || indices[i] >= size) {
      return absl::InvalidArgumentError(absl::StrCat("index ", indices[i], " at position ", i,
                                                     " is not in [-", size, ", ", size, ")"));
    }
    if (indices[i] < 0) indices[i] += size;
  }
  return indices;
}

// Returns the shape of Gather's result: the shape of the indices takes the place of the axis in the
// data's shape.
Shape GatheredShape(const Shape& data, const Shape& indices, int axis) {
  absl::InlinedVector<int64_t, 4> dims(data.dims().begin(), data.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), data.dims().begin() + axis + 1, data.dims().end());
  return Shape(absl::MakeConstSpan(dims));
}

absl::Status RunGather(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& data = context.input(0);
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, data.shape().rank()));
  const AxisView view = ViewAroundAxis(data.shape(), axis);
  ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(context.input(1), view.size));
  const size_t bytes = static_cast<size_t>(view.inner) * ElementSize(data.dtype());
  const Shape shape = GatheredShape(data.shape(), context.input(1).shape(), axis);
  std::byte* out = context.Output(0, data.dtype(), shape).mutable_raw();
  if (bytes == 0) return absl::OkStatus();
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (const int64_t index : indices) {
      std::memcpy(out, data.raw() + static_cast<size_t>(outer * view.size + index) * bytes, bytes);
      out += bytes;
    }
  }
  return absl::OkStatus();
}

absl::Status RunGatherGrad(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Shape shape = context.input(2).shape();
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, shape.rank()));
  const AxisView view = ViewAroundAxis(shape, axis);
  ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(context.input(1), view.size));
  const Shape gathered = GatheredShape(shape, context.input(1).shape(), axis);
  if (dy.shape() != gathered) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dy.TypeString(), " where Gather gave ", gathered.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // If an index occurs several times, the gradients of the row that it selects add up, in double
    // and in the order of the indices.
    std::vector<double> sums(static_cast<size_t>(shape.num_elements()), 0);
    const T* from = dy.data<T>();
    for (int64_t outer = 0; outer < view.outer; ++outer) {
      for (const int64_t index : indices) {
        double* to = sums.data() + (outer * view.size + index) * view.inner;
        for (int64_t i = 0; i < view.inner; ++i) to[i] += static_cast<double>(*from++);
      }
    }
    T* out = context.Output(0, dy.dtype(), shape).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

// Reads OneHot's class numbers, which may have any number type. A number outside [-depth, depth)
// becomes -1: for such a number OneHot sets no element to the "on" value.
absl::StatusOr<std::vector<int64_t>> ReadClasses(const Tensor& tensor, int64_t depth) {
  std::vector<int64_t> classes;
  RETURN_IF_ERROR(DispatchNumbers(tensor, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (const T value : tensor.span<T>()) {
      const double number = std::trunc(static_cast<double>(value));
      const double limit = static_cast<double>(depth);
      const bool inside = number >= -limit && number < limit;
      const int64_t index = inside ? static_cast<int64_t>(number) : -1;
      classes.push_back(inside && index < 0 ? index + depth : index);
    }
    return absl::OkStatus();
  }));
  return classes;
}

absl::Status RunOneHot(KernelContext& context, const AxisParameters& parameters) {
  const Tensor& indices = context.input(0);
  const Tensor& values = context.input(2);
  ASSIGN_OR_RETURN(const double depth_value, ScalarValue(context.input(1)));
  // The comparison is written so that a depth of NaN is refused, too.
  if (!(depth_value >= 1 && depth_value <= 1e9)) {
    return absl::InvalidArgumentError(absl::StrCat("depth ", depth_value, " is not in [1, 1e9]"));
  }
  const int64_t depth = static_cast<int64_t>(depth_value);
  if (values.shape() != Shape{2}) {
    return absl::InvalidArgumentError(
        absl::StrCat("values are ", values.TypeString(), ", not off and on"));
  }
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, indices.shape().rank() + 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> classes, ReadClasses(indices, depth));
  absl::InlinedVector<int64_t, 4> dims(indices.shape().dims().begin(),
                                       indices.shape().dims().end());
  dims.insert(dims.begin() + axis, depth);
  const Shape shape(absl::MakeConstSpan(dims));
  const AxisView view = ViewAroundAxis(shape, axis);
  const size_t size = ElementSize(values.dtype());
  std::byte* out = context.Output(0, values.dtype(), shape).mutable_raw();
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t number = 0; number < depth; ++number) {
      for (int64_t inner = 0; inner < view.inner; ++inner, out += size) {
        const bool on = classes[static_cast<size_t>(outer * view.inner + inner)] == number;
        std::memcpy(out, values.raw() + (on ? size : 0), size);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterReferenceIndexing(KernelRegistry& registry) {
  using Parameters = AxisParameters;
  registry.Add("", "Gather",
               BoundKernel<Parameters>({2, 2, {kAnyType, kIndices}}, ParseGather, RunGather));
  registry.Add(
      "", "OneHot",
      BoundKernel<Parameters>({3, 3, {kNumbers, kNumbers, kAnyType}}, ParseOneHot, RunOneHot));
  registry.Add(
      "cohort", "GatherGrad",
      BoundKernel<Parameters>({3, 3, {kFloats, kIndices, kAnyType}}, ParseGather, RunGatherGrad));
}

}  // namespace cohort
