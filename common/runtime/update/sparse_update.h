#pragma once

// A sparse push: gradients of some rows of a slice. What it does to rows that are not in it is the
// rule's sparse mode (common/program/update_rule.h); here is how it is done.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/runtime/update/update_kernel.h"

namespace cohort {

// Rows of a slice by ascending number, each with the sum of all that came for it:
// (g1 + g2) + g3 in the order in which they came, as TensorFlow adds them up. Refers to what it was
// made from. Thread-compatible.
class MergedRows {
 public:
  // Merges `gradients`, which have `width` > 0 elements for each of `rows`, which come in any
  // order.
  MergedRows(absl::Span<const int64_t> rows, absl::Span<const float> gradients, size_t width);

  size_t size() const { return rows_.size(); }
  size_t width() const { return width_; }
  int64_t row(size_t i) const { return rows_[i].row; }
  absl::Span<const float> gradient(size_t i) const { return {rows_[i].gradient, width_}; }

 private:
  struct Row {
    int64_t row = 0;
    const float* gradient = nullptr;
  };
  void MergeUnsorted(absl::Span<const int64_t> rows, const float* gradients);

  size_t width_;
  std::vector<Row> rows_;
  std::vector<float> sums_;  // sums of rows that came more than once
};

// Sets the value and slots of one row, to be changed in place. Called with ascending rows, each
// some way ahead of its update: what it has set is valid until the last one.
using RowPlace = absl::FunctionRef<void(size_t row, RowUpdate& place)>;

// Updates the rows that have gradients. `step` has what is the same for all rows, as
// UpdateKernel::ApplyRows takes it.
void UpdateSomeRows(const UpdateKernel& kernel, const MergedRows& gradients, UpdateStep& step,
                    RowPlace place);

// Sets the value and slot spans of `step` for as many rows from `first` on as it has in one piece,
// at most `count`, and returns how many. Called with ascending rows.
using RowMemory = absl::FunctionRef<size_t(size_t first, size_t count, UpdateStep& step)>;

// Updates all of `num_rows`: those without a gradient get one of zeros. `step` has what is the same
// for all rows.
void UpdateAllRows(const UpdateKernel& kernel, const MergedRows& gradients, size_t num_rows,
                   UpdateStep& step, RowMemory memory);

}  // namespace cohort
