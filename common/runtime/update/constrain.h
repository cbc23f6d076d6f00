#pragma once

// Keras's constraints: what becomes of a variable's value after each update.
// common/program/update_rule.h lists the parameters of an update rule that describe a constraint.

#include <cstddef>
#include <optional>

#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace cohort {

enum class ConstraintKind { kMaxNorm = 1, kNonNeg, kUnitNorm, kMinMaxNorm };

// A constraint of a value that is seen as [outer, count, stride]: each norm is that of `count`
// elements, which lie `stride` elements apart.
struct Constraint {
  ConstraintKind kind = ConstraintKind::kNonNeg;
  size_t count = 1;
  size_t stride = 1;
  double min = 0;
  double max = 0;
  double rate = 1;  // the share of the way to the range that a norm outside of it goes
};

// Returns the constraint of a rule that DescribeUpdateRule accepts, if the rule has one.
std::optional<Constraint> ConstraintOf(const proto::UpdateRule& rule);

// Changes the value as Keras does. The number of elements is a multiple of count * stride.
void Constrain(const Constraint& constraint, absl::Span<float> value);

}  // namespace cohort
