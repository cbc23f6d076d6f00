#include "common/runtime/kernels/row_norm_shape.h"

namespace cohort {

namespace {

// Checks the inputs that hold numbers for parts of x; an absent one is skipped.
absl::Status CheckParts(const Tensor& x, absl::Span<const Tensor> parts, const Shape& shape) {
  for (const Tensor& each : parts) {
    if (!each.has_value()) continue;
    RETURN_IF_ERROR(RequireSameType(x, each));
    if (each.shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat(each.TypeString(),
                                                     " where the normalization of ", x.TypeString(),
                                                     " needs the shape ", shape.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

LayerNormParameters ParseLayerNorm(AttributeReader& reader) {
  const int64_t stash_type = reader.Int("stash_type", onnx::TensorProto::FLOAT);
  if (stash_type != onnx::TensorProto::FLOAT) {
    reader.Fail(absl::StrCat("stash_type ", stash_type, " is not supported; use 1, float32"));
  }
  return ParseLayerNormGrad(reader);
}

LayerNormParameters ParseLayerNormGrad(AttributeReader& reader) {
  return {reader.Int("axis", -1), reader.Float("epsilon", 1e-5f)};
}

GroupNormParameters ParseInstanceNorm(AttributeReader& reader) {
  return {0, reader.Float("epsilon", 1e-5f)};
}

GroupNormParameters ParseGroupNorm(AttributeReader& reader) {
  GroupNormParameters parameters = ParseInstanceNorm(reader);
  parameters.groups = reader.Int("groups", 0);
  if (parameters.groups < 0) reader.Fail(absl::StrCat("groups is ", parameters.groups));
  return parameters;
}

absl::StatusOr<RowNormShape> ResolveLayerNorm(const Tensor& x, absl::Span<const Tensor> per_element,
                                              const LayerNormParameters& parameters) {
  ASSIGN_OR_RETURN(const int axis, NormalAxis(parameters.axis, x.shape().rank()));
  RETURN_IF_ERROR(CheckParts(x, per_element, Shape(x.shape().dims().subspan(axis))));
  RowNormShape shape;
  shape.rows = 1;
  shape.size = 1;
  std::vector<int64_t> dims;
  for (int i = 0; i < x.shape().rank(); ++i) {
    (i < axis ? shape.rows : shape.size) *= x.shape().dim(i);
    dims.push_back(i < axis ? x.shape().dim(i) : 1);
  }
  shape.statistics = Shape(dims);
  return shape;
}

absl::StatusOr<RowNormShape> ResolveGroupNorm(const Tensor& x, absl::Span<const Tensor> per_channel,
                                              const GroupNormParameters& parameters) {
  if (x.shape().rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs [batch, channels, ...], not ", x.TypeString()));
  }
  const AxisView view = ViewAroundAxis(x.shape(), 1);
  RETURN_IF_ERROR(CheckParts(x, per_channel, Shape{view.size}));
  const int64_t groups = parameters.groups == 0 ? view.size : parameters.groups;
  if (groups == 0) return RowNormShape{0, 0, 1, view.inner, Shape{view.outer, 0}};
  if (view.size % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat(groups, " groups do not divide the ", view.size,
                                                   " channels of ", x.TypeString()));
  }
  RowNormShape shape;
  shape.rows = view.outer * groups;
  shape.size = view.size / groups * view.inner;
  shape.groups = groups;
  shape.inner = view.inner;
  shape.statistics = Shape{view.outer, groups};
  return shape;
}

absl::Status CheckStatistics(const Tensor& mean, const Tensor& rate, const RowNormShape& shape) {
  if (mean.has_value() != rate.has_value()) {
    return absl::InvalidArgumentError("needs both the mean and the inverse deviation, or neither");
  }
  for (const Tensor* each : {&mean, &rate}) {
    if (!each->has_value()) continue;
    RETURN_IF_ERROR(RequireType(*each, DType::kFloat32));
    if (each->shape() != shape.statistics) {
      return absl::InvalidArgumentError(
          absl::StrCat(each->TypeString(), " where the rows have ", shape.statistics.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
