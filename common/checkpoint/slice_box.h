#pragma once

// A slice of a tensor is a box: `lengths[a]` elements from `starts[a]` on, along each axis. Its
// bytes are stored row major. Cohort writes slices along axis 0 alone; TensorFlow may write any.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

struct SliceBox {
  std::vector<int64_t> starts;
  std::vector<int64_t> lengths;
};

// Returns the box of a whole tensor.
SliceBox WholeBox(absl::Span<const int64_t> dims);

// Checks that `boxes` cover every element of a tensor of extents `dims` once. `dims` has passed
// CheckedBytes. Errors: INVALID_ARGUMENT saying which boxes.
absl::Status CheckBoxesTile(absl::Span<const int64_t> dims, absl::Span<const SliceBox> boxes);

// Puts the stored bytes of one slice, as they come from a file, where they belong in a tensor that
// holds rows `rows` of the whole. Thread-compatible.
class SliceCopier {
 public:
  // Copies the rows `rows` out of `box`, which lies inside `dims`; `rows` is {0, 1} for a scalar.
  SliceCopier(const SliceBox& box, absl::Span<const int64_t> dims, int64_t element_bytes,
              RowRange rows);

  // Copies `bytes`, which are those of the slice from byte `position` on; bytes of other rows are
  // dropped.
  void Copy(int64_t position, absl::Span<const char> bytes, char* rows_begin) const;

 private:
  // Returns where the first byte of run `run` belongs, relative to the first wanted row.
  int64_t RunDestination(int64_t run) const;

  // A run is a part of the slice that is contiguous in the tensor too: the box along axis
  // `run_axis_` and all of the axes after it.
  std::vector<int64_t> lengths_;  // lengths of the axes before run_axis_
  std::vector<int64_t> strides_;  // bytes, of the axes before run_axis_
  int64_t run_bytes_ = 0;
  int64_t origin_ = 0;     // destination of the slice's first byte; negative before the rows
  int64_t out_bytes_ = 0;  // bytes of all wanted rows
};

}  // namespace cohort
