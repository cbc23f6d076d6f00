#include "common/runtime/update/constrain.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/program/update_rule.h"

namespace cohort {

namespace {

constexpr double kEpsilon = 1e-7;  // keras.backend.epsilon()

// Returns the norm that the constraint wants in the place of `norm`.
double WantedNorm(const Constraint& constraint, double norm) {
  switch (constraint.kind) {
    case ConstraintKind::kMaxNorm:
      return std::min(norm, constraint.max);
    case ConstraintKind::kMinMaxNorm: {
      // As TensorFlow clips: the lower bound counts where it lies above the upper one.
      const double clipped = std::max(std::min(norm, constraint.max), constraint.min);
      return constraint.rate * clipped + (1 - constraint.rate) * norm;
    }
    default:
      return 1;
  }
}

}  // namespace

std::optional<Constraint> ConstraintOf(const proto::UpdateRule& rule) {
  if (!IsConstrained(rule)) return std::nullopt;
  const auto size = [&](const char* name) { return static_cast<size_t>(ParameterOf(rule, name)); };
  return Constraint{.kind = static_cast<ConstraintKind>(size("constraint")),
                    .count = std::max<size_t>(size("constraint_count"), 1),
                    .stride = std::max<size_t>(size("constraint_stride"), 1),
                    .min = ParameterOf(rule, "constraint_min"),
                    .max = ParameterOf(rule, "constraint_max"),
                    .rate = ParameterOf(rule, "constraint_rate")};
}

void Constrain(const Constraint& constraint, absl::Span<float> value) {
  if (value.empty()) return;
  if (constraint.kind == ConstraintKind::kNonNeg) {
    // By a product, as in Keras, so that NaN stays what it is.
    for (float& one : value) one *= one >= 0 ? 1.0f : 0.0f;
    return;
  }
  const size_t block = constraint.count * constraint.stride;
  COHORT_CHECK(value.size() % block == 0, "the value's size is a multiple of a constrained block");
  for (size_t begin = 0; begin < value.size(); begin += block) {
    for (size_t i = 0; i < constraint.stride; ++i) {
      double squares = 0;
      for (size_t j = i; j < block; j += constraint.stride) {
        squares += static_cast<double>(value[begin + j]) * static_cast<double>(value[begin + j]);
      }
      const double norm = std::sqrt(squares);
      const auto factor = static_cast<float>(WantedNorm(constraint, norm) / (kEpsilon + norm));
      for (size_t j = i; j < block; j += constraint.stride) value[begin + j] *= factor;
    }
  }
}

}  // namespace cohort
