#include "ps_server/table/row_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel/half_floats.h"
#include "common/runtime/update/update_kernel.h"

namespace cohort {

namespace {

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

absl::Status Bad(const std::string& table, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("table '", table, "': ", what));
}

}  // namespace

RowLayout::RowLayout(const RowSpec& spec)
    : initializer_(spec.initializer),
      stream_(spec.initializer.seed, spec.table),
      width_(spec.width),
      dtype_(spec.dtype) {}

absl::StatusOr<RowLayout> RowLayout::Make(const RowSpec& spec, const proto::UpdateRule& rule) {
  const std::string& table = spec.table;
  if (spec.width == 0 || spec.width > kWidthMax) {
    return Bad(table,
               absl::StrCat("rows of ", spec.width, " elements; 1 to ", kWidthMax, " will do"));
  }
  if (spec.dtype != DType::kFloat32 && spec.dtype != DType::kFloat16 &&
      spec.dtype != DType::kBfloat16) {
    return Bad(table, absl::StrCat("rows of ", DTypeName(spec.dtype),
                                   "; float32, float16 and bfloat16 will do"));
  }
  RETURN_IF_ERROR(CheckInitializer(spec.initializer, DType::kFloat32));
  ASSIGN_OR_RETURN(const UpdateRuleSpec rule_spec, DescribeUpdateRule(rule));
  if (rule_spec.sweeps) {
    return Bad(table, absl::StrCat("dense_exact updates by '", rule.op(),
                                   "' change every row of a "
                                   "table at each step, and a dynamic table has no end of rows: "
                                   "set sparse_updates to lazy or lazy_compensated"));
  }
  if (rule_spec.slots.size() > kRowSlotsMax) return Bad(table, "too many slots");
  RowLayout layout(spec);
  // The size of the values is rounded up to whole floats, because the slots after them must be
  // aligned to floats, and an odd number of 16-bit values would end in the middle of a float.
  size_t bytes = sizeof(RowHeader) + RoundUp(layout.value_bytes(), sizeof(float));
  for (const SlotSpec& slot : rule_spec.slots) {
    const size_t elements = slot.per_row ? 1 : spec.width;
    layout.slots_.push_back({bytes, elements, slot.per_row, slot.initial_value,
                             slot.starts_as_value, slot.name == kLastStepSlot});
    bytes += elements * sizeof(float);
  }
  layout.payload_bytes_ = bytes - sizeof(RowHeader);
  layout.row_bytes_ = RoundUp(bytes, 8);
  return layout;
}

void RowLayout::Read(const std::byte* row, float* out) const {
  const std::byte* const values = row + sizeof(RowHeader);
  if (is_float32()) {
    std::memcpy(out, values, width_ * sizeof(float));
  } else if (dtype_ == DType::kFloat16) {
    FromFloat16(reinterpret_cast<const uint16_t*>(values), out, width_);
  } else {
    FromBfloat16(reinterpret_cast<const uint16_t*>(values), out, width_);
  }
}

void RowLayout::Write(const float* values, std::byte* row) const {
  std::byte* const out = Values(row);
  if (is_float32()) {
    std::memcpy(out, values, width_ * sizeof(float));
  } else if (dtype_ == DType::kFloat16) {
    ToFloat16(values, reinterpret_cast<uint16_t*>(out), width_);
  } else {
    ToBfloat16(values, reinterpret_cast<uint16_t*>(out), width_);
  }
}

void RowLayout::FillValues(uint64_t key, float* out) const {
  FillFromStream(initializer_, stream_.Child(key), absl::MakeSpan(out, width_));
  // The initial values are rounded to the table's type, so that reading a key without a row gives
  // the same values as reading its new row.
  if (is_float32()) return;
  absl::InlinedVector<std::byte, 1024> row(sizeof(RowHeader) + value_bytes());
  Write(out, row.data());
  Read(row.data(), out);
}

void RowLayout::Fill(uint64_t key, uint64_t step, std::byte* row) const {
  // The time stamp and the number of uses in the header are 0 until the caller sets them.
  Header(row) = {key, 0, 0};
  absl::InlinedVector<float, 256> values(width_);
  FillValues(key, values.data());
  Write(values.data(), row);
  for (const Slot& slot : slots_) {
    float* const begin = SlotOf(row, slot);
    if (slot.starts_as_value) {
      std::copy_n(values.data(), slot.elements, begin);
    } else if (slot.is_last_step) {
      // A new row has missed no step, so its last-step slot gets the number of the step before the
      // one that makes the row.
      *begin = std::bit_cast<float>(static_cast<uint32_t>(std::min<uint64_t>(step - 1, ~0u)));
    } else {
      std::fill_n(begin, slot.elements, slot.initial_value);
    }
  }
}

}  // namespace cohort
