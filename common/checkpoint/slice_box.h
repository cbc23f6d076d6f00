#pragma once

// A slice of a tensor as a box: along each axis `a`, the slice has `lengths[a]` elements from index
// `starts[a]` on. The bytes of a slice are stored in row-major order. Cohort writes only slices
// along axis 0; TensorFlow may write any box.

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

// Returns the box that covers a whole tensor.
SliceBox WholeBox(absl::Span<const int64_t> dims);

// Checks that `boxes` cover every element of a tensor with the shape `dims` exactly once.
// CheckedBytes must have accepted `dims`. Errors: INVALID_ARGUMENT that names boxes that overlap or
// lie outside the tensor, or the number of elements that are not covered.
absl::Status CheckBoxesTile(absl::Span<const int64_t> dims, absl::Span<const SliceBox> boxes);

// A copier of the stored bytes of one slice to their places in a tensor that has the rows `rows` of
// the whole tensor. Thread-compatible.
class SliceCopier {
 public:
  // Makes a copier from the slice `box` to the rows `rows` of a tensor of shape `dims`. The box
  // must lie inside the tensor, and `rows` must be {0, 1} for a scalar.
  SliceCopier(const SliceBox& box, absl::Span<const int64_t> dims, int64_t element_bytes,
              RowRange rows);

  // Copies `bytes`, the slice's bytes from byte `position` on, to their places in the rows at
  // `rows_begin`. Bytes that belong to other rows are dropped.
  void Copy(int64_t position, absl::Span<const char> bytes, char* rows_begin) const;

 private:
  // Returns where the first byte of run number `run` of the slice belongs, in bytes from the first
  // wanted row.
  int64_t RunDestination(int64_t run) const;

  // The size in bytes of a run. A run is a part of the slice that is contiguous in the tensor as
  // well: the box's elements along one axis, the run axis, and along all axes after the run axis.
  std::vector<int64_t> lengths_;  // lengths of the box along the axes before the run axis
  std::vector<int64_t> strides_;  // strides in bytes of the axes before the run axis
  int64_t run_bytes_ = 0;
  // Where the slice's first byte belongs, in bytes from the first wanted row; negative if this byte
  // belongs to an earlier row.
  int64_t origin_ = 0;
  int64_t out_bytes_ = 0;  // size in bytes of all rows that the caller wants
};

}  // namespace cohort
