#pragma once

// A slice of a variable in the memory of a home, as tests write and read it.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/runtime/update/variable_memory.h"

namespace cohort {

class FloatsAtHome {
 public:
  FloatsAtHome(VariableMemory& memory, const std::vector<float>& values)
      : size_(values.size()), buffer_(*memory.Allocate(size_ * sizeof(float))) {
    std::copy(values.begin(), values.end(), span().begin());
  }

  absl::Span<float> span() const { return {reinterpret_cast<float*>(buffer_->data()), size_}; }
  std::vector<float> values() const { return {span().begin(), span().end()}; }

 private:
  size_t size_;
  std::shared_ptr<Buffer> buffer_;
};

struct SliceAtHome {
  SliceAtHome(VariableMemory& memory, const std::vector<float>& start,
              const std::vector<std::vector<float>>& start_slots)
      : value(memory, start) {
    for (const std::vector<float>& slot : start_slots) slots.emplace_back(memory, slot);
  }

  // From this one into `out`, which may be this.
  UpdateStep StepInto(const SliceAtHome& out) const {
    UpdateStep step;
    step.value_in = value.span();
    step.value_out = out.value.span();
    for (size_t i = 0; i < slots.size(); ++i) {
      step.slots.push_back({slots[i].span(), out.slots[i].span()});
    }
    return step;
  }

  FloatsAtHome value;
  std::vector<FloatsAtHome> slots;
};

}  // namespace cohort
