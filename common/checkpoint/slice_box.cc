#include "common/checkpoint/slice_box.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace cohort {

namespace {

int64_t Volume(absl::Span<const int64_t> lengths) {
  int64_t volume = 1;
  for (int64_t length : lengths) volume *= length;
  return volume;
}

std::string BoxString(const SliceBox& box) {
  return absl::StrCat("[", absl::StrJoin(box.starts, ","), "]+[", absl::StrJoin(box.lengths, ","),
                      "]");
}

bool IsInside(const SliceBox& box, absl::Span<const int64_t> dims) {
  if (box.starts.size() != dims.size() || box.lengths.size() != dims.size()) return false;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t start = box.starts[axis];
    const int64_t length = box.lengths[axis];
    // start + length could overflow, so the check of the bounds subtracts.
    if (start < 0 || length < 1 || length > dims[axis] || start > dims[axis] - length) return false;
  }
  return true;
}

bool Overlap(const SliceBox& a, const SliceBox& b) {
  for (size_t axis = 0; axis < a.starts.size(); ++axis) {
    if (a.starts[axis] + a.lengths[axis] <= b.starts[axis]) return false;
    if (b.starts[axis] + b.lengths[axis] <= a.starts[axis]) return false;
  }
  return true;
}

// Checks that no two boxes overlap. The boxes are sorted by their first row, and only boxes that
// share rows are compared, so the time for slices along axis 0 is linear apart from the sorting.
absl::Status CheckDisjoint(absl::Span<const SliceBox> boxes) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return boxes[a].starts < boxes[b].starts; });
  for (size_t i = 0; i < order.size(); ++i) {
    const SliceBox& box = boxes[order[i]];
    for (size_t j = i + 1; j < order.size(); ++j) {
      const SliceBox& other = boxes[order[j]];
      // If `other` begins after the last row of `box`, so do all boxes after `other`, because boxes
      // are sorted by their first row.
      if (!box.starts.empty() && other.starts[0] >= box.starts[0] + box.lengths[0]) break;
      if (Overlap(box, other)) {
        return absl::InvalidArgumentError(
            absl::StrCat("slices ", BoxString(box), " and ", BoxString(other), " overlap"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

SliceBox WholeBox(absl::Span<const int64_t> dims) {
  return {std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.begin(), dims.end())};
}

absl::Status CheckBoxesTile(absl::Span<const int64_t> dims, absl::Span<const SliceBox> boxes) {
  int64_t missing = Volume(dims);
  for (const SliceBox& box : boxes) {
    if (!IsInside(box, dims)) {
      return absl::InvalidArgumentError(absl::StrCat("slice ", BoxString(box), " is not inside [",
                                                     absl::StrJoin(dims, ","), "]"));
    }
  }
  RETURN_IF_ERROR(CheckDisjoint(boxes));
  // Boxes that lie inside a tensor and do not overlap cover the tensor exactly if their volumes add
  // up to the tensor's volume.
  for (const SliceBox& box : boxes) missing -= Volume(box.lengths);
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("slices leave ", missing, " elements of [", absl::StrJoin(dims, ","), "] out"));
}

SliceCopier::SliceCopier(const SliceBox& box, absl::Span<const int64_t> dims, int64_t element_bytes,
                         RowRange rows) {
  const size_t rank = dims.size();
  std::vector<int64_t> strides(rank, element_bytes);
  // The stride of an axis is the number of bytes from one index of the axis to the next.
  for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  size_t run_axis = rank == 0 ? 0 : rank - 1;
  // If the box covers an axis completely, the elements along this axis and the axis before it are
  // contiguous, so the axis before it becomes the run axis.
  while (run_axis > 0 && box.lengths[run_axis] == dims[run_axis]) --run_axis;

  run_bytes_ = rank == 0 ? element_bytes : box.lengths[run_axis] * strides[run_axis];
  lengths_.assign(box.lengths.begin(), box.lengths.begin() + static_cast<ptrdiff_t>(run_axis));
  strides_.assign(strides.begin(), strides.begin() + static_cast<ptrdiff_t>(run_axis));
  const int64_t row_bytes = rank == 0 ? element_bytes : strides[0];
  for (size_t axis = 0; axis < rank; ++axis) origin_ += box.starts[axis] * strides[axis];
  origin_ -= rows.begin * row_bytes;
  out_bytes_ = rows.count * row_bytes;
}

int64_t SliceCopier::RunDestination(int64_t run) const {
  int64_t destination = origin_;
  for (size_t axis = lengths_.size(); axis-- > 0;) {
    // Runs are numbered in row-major order of their indices along the axes before the run axis: the
    // last of these axes varies fastest.
    destination += run % lengths_[axis] * strides_[axis];
    run /= lengths_[axis];
  }
  return destination;
}

void SliceCopier::Copy(int64_t position, absl::Span<const char> bytes, char* rows_begin) const {
  while (!bytes.empty()) {
    const int64_t within = position % run_bytes_;
    const int64_t count = std::min(run_bytes_ - within, static_cast<int64_t>(bytes.size()));
    const int64_t destination = RunDestination(position / run_bytes_) + within;
    // The rows that the caller wants take the destinations [0, out_bytes_). Bytes with other
    // destinations are not copied.
    const int64_t begin = std::max<int64_t>(destination, 0);
    const int64_t end = std::min(destination + count, out_bytes_);
    if (begin < end) {
      std::memcpy(rows_begin + begin, bytes.data() + (begin - destination),
                  static_cast<size_t>(end - begin));
    }
    position += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace cohort
