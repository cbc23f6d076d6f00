#include "common/runtime/kernels/shape_kernels.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/program/graph_builder.h"
#include "common/program/tensor_proto.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/tensor/pieces.h"

namespace cohort {

namespace {

struct ReshapeParameters {
  bool allow_zero = false;
};

ReshapeParameters ParseReshape(AttributeReader& reader) {
  return {reader.Flag("allowzero", false)};
}

// Returns the new shape of Reshape: a 0 in `dims` is replaced by the input's extent, and a -1 by
// the extent that gives the input's number of elements.
absl::StatusOr<Shape> ResolveShape(const Shape& input, std::vector<int64_t> dims, bool allow_zero) {
  int64_t known = 1;
  int unknown = -1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 0 && !allow_zero) {
      if (static_cast<int>(axis) >= input.rank()) {
        return absl::InvalidArgumentError(
            absl::StrCat("extent 0 at axis ", axis, " copies from ", input.ToString()));
      }
      dims[axis] = input.dim(static_cast<int>(axis));
    }
    // A second -1 in Reshape's new shape is not replaced, so the check of the extents refuses it.
    if (dims[axis] == -1 && unknown < 0) {
      unknown = static_cast<int>(axis);
      continue;
    }
    if (dims[axis] < 0 || __builtin_mul_overflow(known, dims[axis], &known)) {
      return absl::InvalidArgumentError(absl::StrCat("bad extent ", dims[axis], " at axis ", axis));
    }
  }
  const int64_t total = input.num_elements();
  // The extent that replaces -1 must be a whole number, so the other extents must divide the number
  // of elements.
  if (unknown >= 0) {
    if (known == 0 || total % known != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot infer axis ", unknown, " from ", input.ToString()));
    }
    dims[static_cast<size_t>(unknown)] = total / known;
    known = total;
  }
  if (known != total) {
    return absl::InvalidArgumentError(
        absl::StrCat(input.ToString(), " has ", total, " elements, the new shape ", known));
  }
  return Shape(absl::MakeConstSpan(dims));
}

absl::Status RunReshape(KernelContext& context, const ReshapeParameters& parameters) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(std::vector<int64_t> dims, ToInt64s(context.input(1)));
  ASSIGN_OR_RETURN(Shape shape,
                   ResolveShape(input.shape(), std::move(dims), parameters.allow_zero));
  // The result of Reshape shares the input's bytes.
  context.Forward(0, input.Reshaped(std::move(shape)));
  return absl::OkStatus();
}

absl::Status RunReshapeLike(KernelContext& context) {
  const Tensor& input = context.input(0);
  const Shape& shape = context.input(1).shape();
  if (shape.num_elements() != input.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(input.TypeString(), " cannot take the shape ", shape.ToString()));
  }
  context.Forward(0, input.Reshaped(shape));
  return absl::OkStatus();
}

struct AxisParameter {
  int64_t axis = 1;
};

AxisParameter ParseFlatten(AttributeReader& reader) { return {reader.Int("axis", 1)}; }

absl::Status RunFlatten(KernelContext& context, const AxisParameter& parameters) {
  const Tensor& input = context.input(0);
  const int rank = input.shape().rank();
  const int64_t axis = parameters.axis < 0 ? parameters.axis + rank : parameters.axis;
  if (axis < 0 || axis > rank) {  // Flatten's axis may be equal to the rank, too
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", parameters.axis, " is not in ", input.TypeString()));
  }
  int64_t rows = 1;
  int64_t columns = 1;
  // Flatten merges the axes before `axis` into rows, and all other axes into columns.
  for (int i = 0; i < rank; ++i) (i < axis ? rows : columns) *= input.shape().dim(i);
  context.Forward(0, input.Reshaped(Shape{rows, columns}));
  return absl::OkStatus();
}

// Returns one flag for each of `rank` axes, which is set if `axes` contains the axis. Errors:
// INVALID_ARGUMENT for an axis outside the rank, or an axis that is named twice.
absl::StatusOr<std::vector<bool>> NamedAxes(const Tensor& axes, int rank) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(axes));
  std::vector<bool> named(static_cast<size_t>(rank), false);
  for (const int64_t each : values) {
    ASSIGN_OR_RETURN(const int axis, NormalAxis(each, rank));
    if (named[static_cast<size_t>(axis)]) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", each, " is named twice"));
    }
    named[static_cast<size_t>(axis)] = true;
  }
  return named;
}

absl::Status RunSqueeze(KernelContext& context) {
  const Tensor& input = context.input(0);
  const Shape& shape = input.shape();
  const bool all = !InputOr(context, 1).has_value();
  std::vector<bool> named(static_cast<size_t>(shape.rank()), false);
  if (!all) {
    ASSIGN_OR_RETURN(named, NamedAxes(context.input(1), shape.rank()));
  }
  absl::InlinedVector<int64_t, 4> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    // Without axes, Squeeze drops every axis of extent 1.
    const bool dropped = all ? shape.dim(axis) == 1 : named[static_cast<size_t>(axis)];
    if (!dropped) dims.push_back(shape.dim(axis));
    if (dropped && shape.dim(axis) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", axis, " of ", input.TypeString(), " does not have extent 1"));
    }
  }
  context.Forward(0, input.Reshaped(Shape(absl::MakeConstSpan(dims))));
  return absl::OkStatus();
}

absl::Status RunUnsqueeze(KernelContext& context) {
  const Tensor& input = context.input(0);
  const int64_t rank = input.shape().rank() + context.input(1).num_elements();
  if (rank > kRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the result would have rank ", rank, ": at most ", kRankMax, " is possible"));
  }
  ASSIGN_OR_RETURN(const std::vector<bool> added,
                   NamedAxes(context.input(1), static_cast<int>(rank)));
  absl::InlinedVector<int64_t, 4> dims;
  int next = 0;
  for (const bool each : added) dims.push_back(each ? 1 : input.shape().dim(next++));
  context.Forward(0, input.Reshaped(Shape(absl::MakeConstSpan(dims))));
  return absl::OkStatus();
}

// The attributes of Shape: the first axis and the end of the range of axes whose extents Shape
// returns.
struct ShapeRange {
  int64_t start = 0;
  std::optional<int64_t> end;
};

ShapeRange ParseShape(AttributeReader& reader) {
  ShapeRange range;
  range.start = reader.Int("start", 0);
  if (reader.Has("end")) range.end = reader.Int("end", 0);
  return range;
}

absl::Status RunShape(KernelContext& context, const ShapeRange& range) {
  const Shape shape = context.input(0).shape();
  const int64_t rank = shape.rank();
  // A negative axis number counts from the end; a number outside the rank is moved to the nearest
  // bound.
  const auto place = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t first = place(range.start);
  const int64_t last = std::max(first, range.end ? place(*range.end) : rank);
  int64_t* out = context.Output(0, DType::kInt64, Shape{last - first}).mutable_data<int64_t>();
  for (int64_t axis = first; axis < last; ++axis) *out++ = shape.dim(static_cast<int>(axis));
  return absl::OkStatus();
}

absl::Status RunIdentity(KernelContext& context) {
  context.Forward(0, context.input(0));
  return absl::OkStatus();
}

absl::Status RunStopGradient(KernelContext& context) {
  RETURN_IF_ERROR(RequireTypeIn(context.input(0), kFloats));
  return RunIdentity(context);
}

absl::Status RunZerosLike(KernelContext& context) {
  const Tensor& like = context.input(0);
  Tensor& output = context.Output(0, like.dtype(), like.shape());
  if (output.num_bytes() > 0) std::memset(output.mutable_raw(), 0, output.num_bytes());
  return absl::OkStatus();
}

absl::Status RunSize(KernelContext& context) {
  const int64_t size = context.input(0).num_elements();
  *context.Output(0, DType::kInt64, Shape{}).mutable_data<int64_t>() = size;
  return absl::OkStatus();
}

struct AllReduceParameters {};

AllReduceParameters ParseAllReduce(AttributeReader& reader) {
  const std::string reduction = reader.String("reduction", "");
  if (reduction != "sum" && reduction != "mean") {
    reader.Fail(absl::StrCat("reduction is '", reduction, "', neither sum nor mean"));
  }
  // The attribute has no effect on a single replica, but must be read: the AttributeReader refuses
  // attributes that the kernel never reads.
  reader.Flag("of_mean_losses", false);
  return {};
}

// Runs the all-reduce of a single replica: the sum and the mean of one value are the value itself.
absl::Status RunAllReduce(KernelContext& context, const AllReduceParameters&) {
  RETURN_IF_ERROR(RequireTypeIn(context.input(0), kFloats));
  context.Forward(0, context.input(0));
  return absl::OkStatus();
}

AxisParameter ParseGatheredAxis(AttributeReader& reader) { return {reader.Int("axis", 0)}; }

// Runs the all-gather of a single replica: the replica's value is the whole result.
absl::Status RunAllGather(KernelContext& context, const AxisParameter& axis) {
  RETURN_IF_ERROR(AxisOf(axis.axis, context.input(0).shape().rank()).status());
  context.Forward(0, context.input(0));
  return absl::OkStatus();
}

absl::Status RunAllGatherGrad(KernelContext& context, const AxisParameter& axis) {
  RETURN_IF_ERROR(RequireTypeIn(context.input(0), kFloats));
  RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(1)));
  return RunAllGather(context, axis);
}

struct ConstantParameters {
  Tensor value;
};

ConstantParameters ParseConstant(AttributeReader& reader) {
  if (const auto* value = reader.Raw("value"); value != nullptr) {
    absl::StatusOr<Tensor> tensor = FromTensorProto(value->t());
    if (tensor.ok()) return {*std::move(tensor)};
    reader.Fail(std::string(tensor.status().message()));
  } else if (const auto* value = reader.Raw("value_float"); value != nullptr) {
    return {Tensor::Scalar<float>(value->f())};
  } else if (const auto* value = reader.Raw("value_int"); value != nullptr) {
    return {Tensor::Scalar<int64_t>(value->i())};
  } else if (const auto* value = reader.Raw("value_floats"); value != nullptr) {
    return {Tensor::FromVector<float>({value->floats().begin(), value->floats().end()},
                                      Shape{value->floats_size()})};
  } else if (const auto* value = reader.Raw("value_ints"); value != nullptr) {
    return {Tensor::FromVector<int64_t>({value->ints().begin(), value->ints().end()},
                                        Shape{value->ints_size()})};
  } else {
    reader.Fail("needs one of value, value_float, value_int, value_floats, value_ints");
  }
  return {};
}

absl::Status RunConstant(KernelContext& context, const ConstantParameters& parameters) {
  context.Forward(0, parameters.value);
  return absl::OkStatus();
}

}  // namespace

void RegisterShapeKernels(KernelRegistry& registry) {
  registry.Add(
      "", "Reshape",
      BoundKernel<ReshapeParameters>({2, 2, {kAnyType, kIndices}}, ParseReshape, RunReshape));
  registry.Add("", "Flatten",
               BoundKernel<AxisParameter>({1, 1, {kAnyType}}, ParseFlatten, RunFlatten));
  registry.Add("", "Squeeze", PlainKernel({1, 2, {kAnyType, kIndices}}, RunSqueeze));
  registry.Add("", "Unsqueeze", PlainKernel({2, 2, {kAnyType, kIndices}}, RunUnsqueeze));
  registry.Add("", "Shape", BoundKernel<ShapeRange>({1, 1, {kAnyType}}, ParseShape, RunShape));
  registry.Add("", "Identity", PlainKernel({1, 1, {kAnyType}}, RunIdentity));
  registry.Add("", "Size", PlainKernel({1, 1, {kAnyType}}, RunSize));
  registry.Add("cohort", "AllReduce",
               BoundKernel<AllReduceParameters>({1, 1, {kFloats}}, ParseAllReduce, RunAllReduce));
  registry.Add("cohort", "AllGather",
               BoundKernel<AxisParameter>({1, 1, {kAnyType}}, ParseGatheredAxis, RunAllGather));
  registry.Add("cohort", "AllGatherGrad",
               BoundKernel<AxisParameter>({2, 2, {kFloats}}, ParseGatheredAxis, RunAllGatherGrad));
  registry.Add("", "Constant", BoundKernel<ConstantParameters>({0, 0}, ParseConstant, RunConstant));
  registry.Add("cohort", "ReshapeLike", PlainKernel({2, 2, {kAnyType}}, RunReshapeLike));
  registry.Add("cohort", "StopGradient", PlainKernel({1, 1, {kFloats}}, RunStopGradient));
  registry.Add("cohort", "ZerosLike", PlainKernel({1, 1, {kAnyType}}, RunZerosLike));
}

}  // namespace cohort
