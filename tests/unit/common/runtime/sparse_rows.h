#pragma once

// A slice in plain arrays, with the slots that a ps would allocate, and sparse pushes to it.

#include <algorithm>
#include <memory>
#include <vector>

#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/sparse_update.h"
#include "common/runtime/update/update_kernel.h"

namespace cohort {

class SparseRows {
 public:
  SparseRows(const proto::UpdateRule& rule, const std::vector<float>& start, size_t width)
      : spec_(*DescribeUpdateRule(rule)),
        kernel_(*MakeUpdateKernel(rule)),
        width_(width),
        value(start) {
    for (const SlotSpec& slot : spec_.slots) {
      slots.emplace_back(start.size() / (slot.per_row ? width : 1), slot.initial_value);
      if (slot.starts_as_value) slots.back() = start;
    }
  }

  const UpdateRuleSpec& spec() const { return spec_; }

  // The gradients of some rows, which may repeat.
  void Push(const std::vector<int64_t>& rows, const std::vector<float>& gradients,
            double learning_rate, uint64_t step) {
    const MergedRows merged(rows, gradients, width_);
    UpdateStep update = StepOf(learning_rate, step);
    if (spec_.sweeps) {
      UpdateAllRows(*kernel_, merged, value.size() / width_, update,
                    [this](size_t first, size_t count, UpdateStep& step) {
                      return SetSpans(first, count, step);
                    });
    } else {
      SetSpans(0, 1, update);  // for their lengths
      UpdateSomeRows(*kernel_, merged, update,
                     [this](size_t row, RowUpdate& place) { SetPlace(row, place); });
    }
  }

  // Of all rows.
  void PushDense(const std::vector<float>& gradients, double learning_rate, uint64_t step) {
    UpdateStep update = StepOf(learning_rate, step);
    SetSpans(0, value.size() / width_, update);
    update.gradient = gradients;
    kernel_->Apply(update);
  }

 private:
  UpdateStep StepOf(double learning_rate, uint64_t step) const {
    UpdateStep update;
    update.learning_rate = learning_rate;
    update.step = step;
    update.row_width = width_;
    update.slots.resize(slots.size());
    return update;
  }

  // At most three rows at a time, as if pages ended there.
  size_t SetSpans(size_t first, size_t count, UpdateStep& step) {
    const bool sparse = count * width_ < value.size();
    if (sparse) count = std::min(count, 3 - first % 3);
    step.value_out = absl::MakeSpan(value).subspan(first * width_, count * width_);
    step.value_in = step.value_out;
    for (size_t i = 0; i < slots.size(); ++i) {
      const size_t width = spec_.slots[i].per_row ? 1 : width_;
      const absl::Span<float> span = absl::MakeSpan(slots[i]).subspan(first * width, count * width);
      step.slots[i] = {span, span};
    }
    return count;
  }

  void SetPlace(size_t row, RowUpdate& place) {
    place.value = value.data() + row * width_;
    for (size_t i = 0; i < slots.size(); ++i) {
      place.slots[i] = slots[i].data() + row * (spec_.slots[i].per_row ? 1 : width_);
    }
  }

  UpdateRuleSpec spec_;
  std::shared_ptr<const UpdateKernel> kernel_;  // immutable, so copies share it
  size_t width_;

 public:
  std::vector<float> value;
  std::vector<std::vector<float>> slots;
};

}  // namespace cohort
