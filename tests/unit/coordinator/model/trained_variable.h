#pragma once

// A variable that a test trains by an update kernel, as a ps does.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/update_kernel.h"
#include "common/tensor/tensor.h"

namespace cohort {

// One variable with its slots. Thread-compatible.
struct TrainedVariable {
  Tensor value;
  std::vector<std::vector<float>> slots;

  // Makes the variable with the slots of a rule, before any update.
  static TrainedVariable Begin(const Tensor& value, const UpdateRuleSpec& rule) {
    TrainedVariable variable{value, {}};
    for (const SlotSpec& slot : rule.slots) {
      std::vector<float> start(static_cast<size_t>(value.num_elements()), slot.initial_value);
      const auto values = value.span<float>();
      if (slot.starts_as_value) start.assign(values.begin(), values.end());
      variable.slots.push_back(std::move(start));
    }
    return variable;
  }

  void Apply(const UpdateKernel& kernel, const Tensor& gradient, double learning_rate,
             uint64_t step) {
    const auto count = static_cast<size_t>(value.num_elements());
    Tensor next = value.Clone();
    UpdateStep update;
    update.gradient = gradient.span<float>();
    update.value_in = value.span<float>();
    update.value_out = absl::MakeSpan(next.mutable_data<float>(), count);
    for (std::vector<float>& slot : slots) update.slots.push_back({slot, absl::MakeSpan(slot)});
    update.learning_rate = learning_rate;
    update.step = step;
    kernel.Apply(update);
    value = std::move(next);
  }
};

}  // namespace cohort
