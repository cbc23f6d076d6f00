#include "common/runtime/kernels/batch_norm_shape.h"

namespace cohort {

BatchNormParameters ParseBatchNorm(AttributeReader& reader) {
  BatchNormParameters parameters = ParseBatchNormGrad(reader);
  parameters.momentum = reader.Float("momentum", 0.9f);
  return parameters;
}

BatchNormParameters ParseBatchNormGrad(AttributeReader& reader) {
  BatchNormParameters parameters;
  parameters.epsilon = reader.Float("epsilon", 1e-5f);
  parameters.training = reader.Flag("training_mode", false);
  return parameters;
}

absl::StatusOr<BatchNormShape> ResolveBatchNorm(const Tensor& x,
                                                absl::Span<const Tensor> per_channel) {
  if (x.shape().rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs [batch, channels, ...], not ", x.TypeString()));
  }
  const AxisView view = ViewAroundAxis(x.shape(), 1);
  for (const Tensor& each : per_channel) {
    // An input without a value is optional and absent, so it is not checked.
    if (!each.has_value()) continue;
    RETURN_IF_ERROR(RequireSameType(x, each));
    if (each.shape() != Shape{view.size}) {
      return absl::InvalidArgumentError(
          absl::StrCat(each.TypeString(), " for the ", view.size, " channels of ", x.TypeString()));
    }
  }
  return BatchNormShape{view.outer, view.size, view.inner, view.outer * view.inner};
}

absl::StatusOr<BatchNormShape> ResolveBatchNorm(const KernelContext& context) {
  return ResolveBatchNorm(context.input(0),
                          {context.input(1), context.input(2), context.input(3), context.input(4)});
}

absl::StatusOr<BatchNormShape> ResolveBatchNormGrad(const KernelContext& context,
                                                    const BatchNormParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, x));
  RETURN_IF_ERROR(RequireSameShape(dy, x));
  // In training mode, BatchNormalizationGrad computes mean and variance from x, so the node may
  // omit these two inputs.
  const bool complete = context.input(3).has_value() && context.input(4).has_value();
  if (!parameters.training && !complete) {
    return absl::InvalidArgumentError("needs mean and variance where training_mode is 0");
  }
  return ResolveBatchNorm(x, {context.input(2), context.input(3), context.input(4)});
}

}  // namespace cohort
