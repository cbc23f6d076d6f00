#pragma once

// TensorFlow's and NumPy's basic indexing of a variable in two steps, because the rows of a
// variable lie on parameter servers: a plan tells which rows are needed, and a second step selects
// the result from these rows. An index expression is a list of items:
//   Index     one position along an axis, counted from the end if negative; the axis disappears
//   Range     [begin, end) by step; a missing end means the axis's end, ends outside are clamped
//   Ellipsis  all axes that no other item selects from, whole; at most one per expression
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

// The positions that an index expression selects along one axis: `count` positions from `start` on,
// `step` apart.
struct AxisPick {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

struct SlicingPlan {
  std::vector<AxisPick> axes;  // the positions that are selected along each axis of the value
  Shape result;

  // Returns the numbers of the selected rows (positions along axis 0), in the order of the result.
  // The value must have at least one axis.
  std::vector<int64_t> rows() const;
};

// Plans an index expression over a value of shape `shape`. Errors: OUT_OF_RANGE for an index
// outside its axis; INVALID_ARGUMENT for a step of 0, a second ellipsis, or more items than axes.
absl::StatusOr<SlicingPlan> PlanSlicing(const Shape& shape, absl::Span<const SliceItem> items);

// Selects the result of a slicing plan from `rows`: the rows plan.rows() of the value, whole along
// all other axes. For a value without axes, `rows` is the value itself.
Tensor PickFromRows(const SlicingPlan& plan, const Tensor& rows);

}  // namespace cohort
