#pragma once

// A sparse push: gradients for some rows of a slice. The rule's sparse mode
// (common/program/update_rule.h) decides what happens to the rows that are not in the push.
// UpdateSomeRows leaves them as they are; UpdateAllRows gives them gradients of zeros.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/runtime/update/update_kernel.h"

namespace cohort {

// The rows of a push in ascending order, each with the sum of all its gradients: (g1 + g2) + g3 in
// the order in which they were pushed, as TensorFlow adds them. The object refers to the memory of
// the pushed gradients. Thread-compatible.
class MergedRows {
 public:
  // Merges `gradients`, which have `width` > 0 elements for each of `rows`. The rows may come in
  // any order and may repeat.
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
  std::vector<float> sums_;  // the sums of rows that were pushed more than once
};

// A function that sets `place` to the memory of the value and slots of one row, which are changed
// in place. The function is called for rows in ascending order, some rows ahead of their updates.
// Each place must stay valid until the last row has been updated.
using RowPlace = absl::FunctionRef<void(size_t row, RowUpdate& place)>;

// Updates only the rows that have gradients. `step` has the learning rate and everything else that
// all rows have in common (UpdateKernel::ApplyRows).
void UpdateSomeRows(const UpdateKernel& kernel, const MergedRows& gradients, UpdateStep& step,
                    RowPlace place);

// A function that sets the value and slot spans of `step` to as many rows from row `first` on as
// are contiguous in memory, at most `count`, and returns their number. The function is called for
// rows in ascending order.
using RowMemory = absl::FunctionRef<size_t(size_t first, size_t count, UpdateStep& step)>;

// Updates all `num_rows` rows; a row without a gradient gets a gradient of zeros. `step` has the
// learning rate and everything else that all rows have in common.
void UpdateAllRows(const UpdateKernel& kernel, const MergedRows& gradients, size_t num_rows,
                   UpdateStep& step, RowMemory memory);

}  // namespace cohort
