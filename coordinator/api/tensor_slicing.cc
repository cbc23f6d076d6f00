#include "coordinator/api/tensor_slicing.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// Returns the positions that a range selects along an axis of length `extent`, by the rules of
// NumPy.
absl::StatusOr<AxisPick> PickOf(const Range& range, int64_t extent) {
  const int64_t step = range.step.value_or(1);
  if (step == 0) return absl::InvalidArgumentError("a slice's step is 0");
  // For a negative step, a range begins at position extent - 1 at the latest, and ends before the
  // first position, which -1 stands for.
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? extent : extent - 1;
  const auto clamp = [&](int64_t at) {
    return std::clamp(at < 0 ? at + extent : at, lowest, highest);
  };
  const int64_t begin = range.begin ? clamp(*range.begin) : (step > 0 ? lowest : highest);
  const int64_t end = range.end ? clamp(*range.end) : (step > 0 ? highest : lowest);
  const int64_t distance = step > 0 ? end - begin : begin - end;
  if (distance <= 0) return AxisPick{begin, step, 0};
  // The stride is unsigned, because the smallest int64 has no positive counterpart. If the stride
  // is longer than the distance between begin and end, only the first position is selected.
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return AxisPick{begin, step,
                  1 + static_cast<int64_t>(static_cast<uint64_t>(distance - 1) / stride)};
}

// Returns the one position that an Index item selects along an axis. Errors: OUT_OF_RANGE.
absl::StatusOr<AxisPick> PickOf(const Index& index, int64_t extent, size_t axis) {
  if (index.at < -extent || index.at >= extent) {
    return absl::OutOfRangeError(absl::StrCat("index ", index.at, " of axis ", axis,
                                              " is not from ", -extent, " to ", extent - 1));
  }
  return AxisPick{index.at < 0 ? index.at + extent : index.at, 1, 1};
}

// Builds a slicing plan from the items of an index expression. Add is called with each item in
// order. Thread-compatible.
class Planner {
 public:
  explicit Planner(const Shape& shape) : shape_(shape) {}

  absl::Status Add(const SliceItem& item, size_t axes_of_ellipsis) {
    // A NewAxis item only adds an axis to the result; it selects nothing along an axis of the
    // value.
    if (std::holds_alternative<NewAxis>(item)) {
      dims_.push_back(1);
      return absl::OkStatus();
    }
    if (std::holds_alternative<Ellipsis>(item)) return AddWhole(axes_of_ellipsis);
    const size_t axis = plan_.axes.size();
    const int64_t extent = shape_.dim(static_cast<int>(axis));
    if (const auto* range = std::get_if<Range>(&item)) {
      ASSIGN_OR_RETURN(const AxisPick pick, PickOf(*range, extent));
      plan_.axes.push_back(pick);
      dims_.push_back(pick.count);
      return absl::OkStatus();
    }
    // An Index item selects one position along its axis, and the result lacks this axis.
    ASSIGN_OR_RETURN(const AxisPick pick, PickOf(std::get<Index>(item), extent, axis));
    plan_.axes.push_back(pick);
    return absl::OkStatus();
  }
  absl::Status AddWhole(size_t axes) {
    for (size_t i = 0; i < axes; ++i) RETURN_IF_ERROR(Add(Range{}, 0));
    return absl::OkStatus();
  }
  SlicingPlan Finish() {
    plan_.result = Shape(absl::MakeConstSpan(dims_));
    return std::move(plan_);
  }

 private:
  const Shape& shape_;
  SlicingPlan plan_;
  std::vector<int64_t> dims_;
};

// Copies the selected elements of a value to `out`, axis by axis. Pick handles the axes from number
// `axis` on, and `in` points to the first element of the value along them. Only the selected rows
// of the value were read, so `in` has no other rows. Thread-compatible.
struct Picker {
  const SlicingPlan& plan;
  const std::vector<size_t>& strides;  // stride of each axis of the value, in bytes
  std::byte* out;
  size_t element_bytes;

  void Pick(size_t axis, const std::byte* in) {
    if (axis == plan.axes.size()) {
      std::memcpy(out, in, element_bytes);
      out += element_bytes;
      return;
    }
    const AxisPick& pick = plan.axes[axis];
    const bool whole = axis + 1 == plan.axes.size() && pick.step == 1;
    // If the selection along the last axis is contiguous, it is copied in one memcpy.
    if (whole && axis > 0) {
      const size_t bytes = static_cast<size_t>(pick.count) * element_bytes;
      std::memcpy(out, in + static_cast<size_t>(pick.start) * element_bytes, bytes);
      out += bytes;
      return;
    }
    for (int64_t i = 0; i < pick.count; ++i) {
      // Only the selected rows of axis 0 were read, so the i-th selected row is row i of `in`.
      const int64_t place = axis == 0 ? i : pick.start + i * pick.step;
      Pick(axis + 1, in + static_cast<size_t>(place) * strides[axis]);
    }
  }
};

}  // namespace

std::vector<int64_t> SlicingPlan::rows() const {
  std::vector<int64_t> rows(static_cast<size_t>(axes[0].count));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = axes[0].start + static_cast<int64_t>(i) * axes[0].step;
  }
  return rows;
}

absl::StatusOr<SlicingPlan> PlanSlicing(const Shape& shape, absl::Span<const SliceItem> items) {
  const auto is_pick = [](const SliceItem& item) {
    return std::holds_alternative<Index>(item) || std::holds_alternative<Range>(item);
  };
  const auto is_ellipsis = [](const SliceItem& item) {
    return std::holds_alternative<Ellipsis>(item);
  };
  const size_t rank = static_cast<size_t>(shape.rank());
  const size_t picks = static_cast<size_t>(std::count_if(items.begin(), items.end(), is_pick));
  const auto ellipses = std::count_if(items.begin(), items.end(), is_ellipsis);
  if (ellipses > 1) return absl::InvalidArgumentError("a slice has more than one ellipsis");
  if (picks > rank) {
    return absl::InvalidArgumentError(absl::StrCat("a slice of ", picks, " axes of a value with ",
                                                   rank, ", which is ", shape.ToString()));
  }
  Planner planner(shape);
  for (const SliceItem& item : items) RETURN_IF_ERROR(planner.Add(item, rank - picks));
  // If the expression has no ellipsis, the remaining axes of the value are taken whole.
  if (ellipses == 0) RETURN_IF_ERROR(planner.AddWhole(rank - picks));
  return planner.Finish();
}

Tensor PickFromRows(const SlicingPlan& plan, const Tensor& rows) {
  Tensor result(rows.dtype(), plan.result);
  if (result.num_bytes() == 0) return result;
  const size_t element_bytes = ElementSize(rows.dtype());
  std::vector<size_t> strides(plan.axes.size(), element_bytes);
  // The stride of an axis is computed from the stride and extent of the axis after it. The extent
  // of axis 0 is not needed.
  for (size_t axis = plan.axes.size(); axis-- > 1;) {
    strides[axis - 1] =
        strides[axis] * static_cast<size_t>(rows.shape().dim(static_cast<int>(axis)));
  }
  Picker{plan, strides, result.mutable_raw(), element_bytes}.Pick(0, rows.raw());
  return result;
}

}  // namespace cohort
