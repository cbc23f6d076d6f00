#pragma once

// TensorFlow's and NumPy's basic indexing, in two steps, because the rows of a variable lie on
// parameter servers: a plan says which rows are needed, and then picks from just these.
//   Index     one place along an axis, from the end if negative; the axis goes
//   Range     [begin, end) by step; absent ends are the whole axis, ends outside are clamped
//   Ellipsis  as many whole axes as are left; at most one
//   NewAxis   an axis of extent 1 that the value does not have

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct Index {
  int64_t at = 0;
};
struct Range {
  std::optional<int64_t> begin, end, step;
};
struct Ellipsis {};
struct NewAxis {};
using SliceItem = std::variant<Index, Range, Ellipsis, NewAxis>;

// The places picked along one axis: `count` from `start` on, `step` apart.
struct AxisPick {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

struct SlicingPlan {
  std::vector<AxisPick> axes;  // one per axis of the value
  Shape result;

  // Returns the picked rows of axis 0, in the order of the result. The value has at least one axis.
  std::vector<int64_t> rows() const;
};

// Errors: OUT_OF_RANGE for an index outside its axis; INVALID_ARGUMENT for a step of 0, a second
// ellipsis, or more items than axes.
absl::StatusOr<SlicingPlan> PlanSlicing(const Shape& shape, absl::Span<const SliceItem> items);

// Picks from `rows`, those of plan.rows() with all other axes, or the value itself if it has no
// axis.
Tensor PickFromRows(const SlicingPlan& plan, const Tensor& rows);

}  // namespace cohort
