#pragma once

// A slice of a tensor is a box: along each axis `a`, the slice has `lengths[a]` elements from the
// index `starts[a]` on. The bytes of a slice are stored in row-major order. Cohort writes only
// slices along axis 0; TensorFlow may write any box.

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

// Checks that `boxes` cover every element of a tensor with the shape `dims` exactly once. `dims`
// must have passed CheckedBytes. Errors: INVALID_ARGUMENT that names the offending boxes.
absl::Status CheckBoxesTile(absl::Span<const int64_t> dims, absl::Span<const SliceBox> boxes);

// A copier from the stored bytes of one slice to their places in a tensor that holds the rows
// `rows` of the whole tensor. Thread-compatible.
class SliceCopier {
 public:
  // Makes a copier for the rows `rows` of the slice `box`. The box must lie inside `dims`, and
  // `rows` must be {0, 1} for a scalar.
  SliceCopier(const SliceBox& box, absl::Span<const int64_t> dims, int64_t element_bytes,
              RowRange rows);

  // Copies `bytes`, which are the slice's bytes from the byte `position` on, into the rows at
  // `rows_begin`. Bytes of other rows are dropped.
  void Copy(int64_t position, absl::Span<const char> bytes, char* rows_begin) const;

 private:
  // Returns where the first byte of run number `run` belongs, in bytes from the first wanted row.
  int64_t RunDestination(int64_t run) const;

  // A run is a part of the slice that is contiguous in the tensor too: the box's elements along one
  // axis, the run axis, and along all axes after the run axis.
  std::vector<int64_t> lengths_;  // lengths of the box along the axes before the run axis
  std::vector<int64_t> strides_;  // strides in bytes of the axes before the run axis
  int64_t run_bytes_ = 0;
  // Where the slice's first byte belongs, in bytes from the first wanted row. Negative if the byte
  // belongs to an earlier row.
  int64_t origin_ = 0;
  int64_t out_bytes_ = 0;  // number of bytes of all rows that the caller wants
};

}  // namespace cohort
