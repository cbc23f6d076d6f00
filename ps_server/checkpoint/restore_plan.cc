#include "ps_server/checkpoint/restore_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/runtime/kernel/half_floats.h"

namespace cohort {

bool TakesSlot(const BundleTensors& tensors, const RestoreSource& source, const SlotSpec& slot,
               const std::string& name) {
  if (source.applied) return true;
  if (!source.slots) return false;
  // The last-step slot (which has for each row the step of its last update) is always read from the
  // checkpoint. With a new slot, every row would count all steps before the checkpoint as missed.
  return !source.new_slots || slot.name == kLastStepSlot || tensors.count(name) > 0;
}

Tensor NewSlot(const SlotSpec& slot, const Shape& shape, const Tensor& value) {
  if (slot.starts_as_value && value.dtype() == DType::kFloat32) return value.Clone();
  Tensor made(DType::kFloat32, shape);
  float* const floats = made.mutable_data<float>();
  if (slot.starts_as_value) {
    // A dynamic table may have 16-bit values, but its slots are float32.
    const auto* const halves = reinterpret_cast<const uint16_t*>(value.raw());
    const auto count = static_cast<size_t>(made.num_elements());
    if (value.dtype() == DType::kFloat16) {
      FromFloat16(halves, floats, count);
    } else {
      COHORT_CHECK(value.dtype() == DType::kBfloat16, "rows of tables are floats");
      FromBfloat16(halves, floats, count);
    }
  } else {
    std::fill_n(floats, made.num_elements(), slot.initial_value);
  }
  return made;
}

}  // namespace cohort
