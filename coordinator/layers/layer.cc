#include "coordinator/layers/layer.h"

#include "absl/strings/str_cat.h"

namespace cohort {

absl::Status WrongInput(absl::string_view layer, const Shape& shape, absl::string_view need) {
  return absl::InvalidArgumentError(absl::StrCat("layer '", layer, "' is given examples of shape ",
                                                 shape.ToString(), "; ", need));
}

absl::StatusOr<std::vector<TensorType>> SameTypeLayer::Plan(const PlannedCall& call,
                                                            LayerPlan&) const {
  return std::vector<TensorType>{{.shape = call.shape()}};
}

}  // namespace cohort
