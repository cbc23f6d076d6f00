#include "common/runtime/kernels/reduce_shape.h"

namespace cohort {

ReduceParameters ParseReduceSum(AttributeReader& reader) {
  ReduceParameters parameters;
  parameters.keep_dims = reader.Flag("keepdims", true);
  parameters.no_axes_is_identity = reader.Flag("noop_with_empty_axes", false);
  return parameters;
}

ReduceParameters ParseReduceAxes(AttributeReader& reader) {
  ReduceParameters parameters;
  parameters.axes = reader.Ints("axes");
  parameters.keep_dims = reader.Flag("keepdims", true);
  return parameters;
}

ReduceParameters ParseReduceMean(AttributeReader& reader) {
  ReduceParameters parameters = ParseReduceAxes(reader);
  parameters.mean = true;
  return parameters;
}

ReduceParameters ParseReduceGrad(AttributeReader& reader) {
  ReduceParameters parameters = ParseReduceMean(reader);
  // ReduceGrad is the gradient of ReduceSum or of ReduceMean; the attribute `mean` tells which.
  parameters.mean = reader.Flag("mean", false);
  return parameters;
}

absl::StatusOr<ReduceShape> ResolveReduce(const Shape& input, const ReduceParameters& parameters) {
  // Without axes, every axis is reduced.
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), parameters.axes.empty());
  for (const int64_t each : parameters.axes) {
    ASSIGN_OR_RETURN(const int axis, NormalAxis(each, input.rank()));
    if (reduced[static_cast<size_t>(axis)]) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", each, " is reduced twice"));
    }
    reduced[static_cast<size_t>(axis)] = true;
  }
  ReduceShape shape;
  absl::InlinedVector<int64_t, 4> kept;
  absl::InlinedVector<int64_t, 4> result;
  for (int axis = 0; axis < input.rank(); ++axis) {
    // `kept` keeps reduced axes with an extent of 1, so it has the input's rank and broadcasts to
    // the input's shape.
    const bool gone = reduced[static_cast<size_t>(axis)];
    kept.push_back(gone ? 1 : input.dim(axis));
    if (gone) shape.count *= input.dim(axis);
    if (!gone || parameters.keep_dims) result.push_back(kept.back());
  }
  shape.kept = Shape(absl::MakeConstSpan(kept));
  shape.result = Shape(absl::MakeConstSpan(result));
  return shape;
}

absl::StatusOr<ReduceParameters> WithAxesInput(const ReduceParameters& parameters,
                                               const Tensor& axes) {
  ReduceParameters result = parameters;
  if (axes.has_value()) {
    ASSIGN_OR_RETURN(result.axes, ToInt64s(axes));
  }
  return result;
}

ArgMaxParameters ParseArgMax(AttributeReader& reader) {
  return {reader.Int("axis", 0), reader.Flag("keepdims", true),
          reader.Flag("select_last_index", false)};
}

}  // namespace cohort
